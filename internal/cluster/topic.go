package cluster

import (
	"cmp"
	"strconv"

	"strandline.dev/internal/record"
)

// A topic is what Kafka's clients call a log, or several. Partition 0 of topic "orders" is the
// log "orders", however it was created. Partition 3 is the log "orders/3": no user can take that
// name, because a slash is not allowed in one. So a topic exists if its partition 0 does, and a
// topic and a log of the same name are always the same. All partitions of a topic are created and
// deleted in one change of the catalog.
const partitionSeparator = "/"

// PartitionLog returns the name of the log that holds a partition of a topic.
func PartitionLog(topic string, partition int32) string {
	if partition == 0 {
		return topic
	}
	return topic + partitionSeparator + strconv.Itoa(int(partition))
}

// NewPartitions describes partitions to be added to a topic, or those of a new topic.
type NewPartitions struct {
	Topic       string
	From, Until int32 // half-open; From 0 creates the topic
	Config      Config
	Created     int64      // unix ms
	Creator     string     // see Log.Creator
	Nodes       [][]uint64 // of each partition; nil: they are chosen
}

// CreatePartitions plans the logs of partitions. Partitions added to a topic get as many replicas
// as its first one was configured with.
func CreatePartitions(s *State, q NewPartitions, alive func(node uint64) bool) (c Change, refusal *record.Refusal) {
	first, there := s.Logs[q.Topic]
	if q.From > 0 && !there {
		return c, record.Refuse(record.LogNotFound, "topic %q was deleted", q.Topic)
	}
	planned := s.Clone()
	for p := q.From; p < q.Until; p++ {
		one := NewLog{Name: PartitionLog(q.Topic, p), Config: q.Config, Created: q.Created, Creator: q.Creator}
		if q.From > 0 {
			one.Config.Replicas = first.Config.Replicas
		}
		if one.Config.Topic, one.Config.Partition = q.Topic, p; p == 0 {
			one.Config.Topic = ""
		}
		if q.Nodes != nil {
			one.Nodes = q.Nodes[p-q.From]
		}
		l, refusal := CreateLog(&planned, one, alive)
		if refusal != nil {
			return Change{}, refusal
		}
		planned.put(l)
		c.Put = append(c.Put, l)
	}
	return c, nil
}

// ReconfigureTopic changes the settings of all partitions of a topic as ReconfigureLog does.
// to.Revision is the revision of partition 0.
func ReconfigureTopic(s *State, name string, to Config) (c Change, refusal *record.Refusal) {
	logs := TopicLogs(s, name)
	if len(logs) == 0 {
		return c, noTopic(name)
	}
	for i := range logs {
		one, refusal := ReconfigureLog(s, logs[i].Name, 0, to)
		if refusal != nil {
			return Change{}, refusal
		}
		c.Put = append(c.Put, one.Put...)
		to.Revision = 0
	}
	return c, nil
}

// DeleteTopic removes a topic with all its partitions.
func DeleteTopic(s *State, name string) (c Change, refusal *record.Refusal) {
	logs := TopicLogs(s, name)
	if len(logs) == 0 {
		return c, noTopic(name)
	}
	for i := range logs {
		c.Delete = append(c.Delete, logs[i].Name)
	}
	return c, nil
}

func noTopic(name string) *record.Refusal {
	return record.Refuse(record.LogNotFound, "there is no topic %q", name)
}

// TopicLogs returns the logs of a topic's partitions, from partition 0 on.
func TopicLogs(s *State, topic string) (logs []Log) {
	for {
		l, ok := s.Logs[PartitionLog(topic, int32(len(logs)))]
		if !ok {
			return logs
		}
		logs = append(logs, l)
	}
}

// refusePartOfTopic refuses to delete one of several partitions of a topic: the partition numbers
// would have a gap.
func refusePartOfTopic(s *State, name string) *record.Refusal {
	topic := cmp.Or(s.Logs[name].Config.Topic, name)
	if others := len(TopicLogs(s, topic)) - 1; others > 0 {
		return record.Refuse(record.Invalid, "log %q is one of %d partitions of topic %q; delete the whole topic through the Kafka port",
			name, others+1, topic)
	}
	return nil
}
