package node

import (
	"slices"
	"strconv"
	"strings"

	"strandline.dev/internal/record"
)

// A topic is what Kafka's clients call a log, or several. Partition 0 of topic
// "orders" is the log "orders", whichever door made it. Partition 3 is the log
// "orders/3": no user can take that name, because a slash is not allowed in
// one. So a topic is there when its partition 0 is, and a topic and a log of
// the same name are never two things.
const partitionSeparator = "/"

// PartitionLog is the name of the log that holds a partition of a topic.
func PartitionLog(topic string, partition int32) string {
	if partition == 0 {
		return topic
	}
	return topic + partitionSeparator + strconv.Itoa(int(partition))
}

// TopicOf tells which partition of which topic a log is.
func (i *Info) TopicOf() (topic string, partition int32) {
	if i.Config.Topic == "" {
		return i.Name, 0
	}
	return i.Config.Topic, i.Config.Partition
}

// checkName refuses a name that the caller may not give to a log.
func checkName(c Caller, name string, config Config) *record.Refusal {
	user := name
	if config.Topic != "" {
		if config.Partition <= 0 || name != PartitionLog(config.Topic, config.Partition) {
			return record.Refuse(record.Invalid, "%q is not the log of partition %d of topic %q", name, config.Partition, config.Topic)
		}
		user = config.Topic
	}
	if c.System {
		user = strings.TrimPrefix(user, systemPrefix)
	}
	if !validName.MatchString(user) || user == "." || user == ".." {
		return record.Refuse(record.Invalid,
			"%q is no name for a log: 1 to 200 of a-z A-Z 0-9 . _ -, not beginning with _", name)
	}
	return nil
}

// systemPrefix begins the names of logs that belong to the system.
const systemPrefix = "_"

// refuseSystem refuses a caller to change a log that belongs to the system.
func refuseSystem(c Caller, log string) *record.Refusal {
	if strings.HasPrefix(log, systemPrefix) && (!c.System || log == catalogName) {
		return record.Refuse(record.Invalid, "log %q belongs to the system", log)
	}
	return nil
}

// refuseOrphans refuses to delete partition 0 of a topic before its others:
// without it the topic would be gone and their records with it, out of sight.
func (s *catalogState) refuseOrphans(name string) *record.Refusal {
	var others []string
	for other, l := range s.Logs {
		if l.Config.Topic == name {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return record.Refuse(record.Invalid, "log %q is partition 0 of a topic with %d more, beginning with %q; delete those first, or the topic through the Kafka port",
		name, len(others), others[0])
}
