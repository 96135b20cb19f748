package topics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	nodesettings "strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
	"strandline.dev/internal/server/kafka/settings"
)

// CreateTopics creates topics, or only checks whether it could.
func (s *Topics) CreateTopics(q *backend.Call, m *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	r := kmsg.NewPtrCreateTopicsResponse()
	for i := range m.Topics {
		asked := &m.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = asked.Topic
		config, count, id, err := s.createTopic(q, asked, m.ValidateOnly)
		if m.Version >= 6 && isBusy(err) {
			err, r.ThrottleMillis = protocol.Refuse(kerr.ThrottlingQuotaExceeded, err.Error()), throttleMillis
		}
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		if err == nil {
			out.TopicID, out.NumPartitions, out.ReplicationFactor = id, count, int16(config.Replicas)
			for _, c := range describeTopicConfigs(&config, nil, false) {
				shown := kmsg.NewCreateTopicsResponseTopicConfig()
				shown.Name, shown.Value, shown.ReadOnly, shown.Source = c.Name, c.Value, c.ReadOnly, int8(c.Source)
				out.Configs = append(out.Configs, shown)
			}
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

// throttleMillis is how long a client waits that is slowed down. Clients do so only for the code that Kafka has
// for quotas, in the versions that know it.
const throttleMillis = 1000

func isBusy(err error) bool { return errors.Is(err, &record.Refusal{Reason: record.Busy}) }

// createTopic returns the configuration of the topic that it created, or would have created; the
// latter has no id.
func (s *Topics) createTopic(q *backend.Call, asked *kmsg.CreateTopicsRequestTopic, validateOnly bool) (config nodesettings.Config, count int32, id backend.TopicID, err error) {
	members, _ := q.Node.Members()
	on, err := assigned(asked)
	if err != nil {
		return config, 0, id, err
	}
	if config, count, err = s.planTopic(asked, len(members)); err != nil {
		return config, 0, id, err
	}
	if on != nil {
		count, config.Replicas = int32(len(on)), len(on[0])
	}
	switch _, err := q.TopicFor(guard.CreateLog, asked.Topic); {
	case err == nil:
		return config, 0, id, protocol.Refuse(kerr.TopicAlreadyExists, fmt.Sprintf("topic %q already exists", asked.Topic))
	case !errors.Is(err, &record.Refusal{Reason: record.LogNotFound}):
		return config, 0, id, err
	}
	if config.Replicas > len(members) {
		return config, 0, id, protocol.Refuse(kerr.InvalidReplicationFactor,
			fmt.Sprintf("%d replicas asked for, and the cluster has %d nodes", config.Replicas, len(members)))
	}
	if validateOnly {
		return config, count, id, nil
	}
	t, err := q.Node.CreateTopic(q.Ctx, q.Caller, asked.Topic, count, config, on)
	if err != nil {
		return config, 0, id, assignmentError(err, on)
	}
	return t.Partitions[0].Config, count, backend.IDOf(q.Node, &t.Partitions[0]), nil
}

// assigned are the nodes that a request names for each partition; nil: none.
func assigned(asked *kmsg.CreateTopicsRequestTopic) ([][]uint64, error) {
	n := len(asked.ReplicaAssignment)
	if n == 0 {
		return nil, nil
	}
	if asked.NumPartitions != -1 || asked.ReplicationFactor != -1 {
		return nil, protocol.Refuse(kerr.InvalidRequest, "give either the nodes of each partition, or numbers of partitions and replicas")
	}
	on := make([][]uint64, n)
	for _, a := range asked.ReplicaAssignment {
		switch {
		case a.Partition < 0 || int(a.Partition) >= n || on[a.Partition] != nil:
			return nil, protocol.Refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("partitions are numbered from 0 to %d, each once", n-1))
		case len(a.Replicas) == 0 || len(a.Replicas) != len(asked.ReplicaAssignment[0].Replicas):
			return nil, protocol.Refuse(kerr.InvalidReplicaAssignment, "all partitions need the same number of replicas")
		}
		on[a.Partition] = nodeIDs(a.Replicas)
	}
	return on, nil
}

func nodeIDs(brokers []int32) []uint64 {
	ids := make([]uint64, len(brokers))
	for i, id := range brokers {
		ids[i] = uint64(max(id, 0)) // there is no node 0
	}
	return ids
}

// assignmentError reports that the named nodes cannot hold the topic.
func assignmentError(err error, on [][]uint64) error {
	var r *record.Refusal
	if on != nil && errors.As(err, &r) && (r.Reason == record.NoNode || r.Reason == record.Invalid) {
		return protocol.Refuse(kerr.InvalidReplicaAssignment, r.Detail)
	}
	return err
}

// planTopic returns the configuration of a requested topic in a cluster with the given number of
// nodes.
func (s *Topics) planTopic(asked *kmsg.CreateTopicsRequestTopic, nodes int) (config nodesettings.Config, count int32, err error) {
	if _, ok := backend.LogOf(asked.Topic, 0); !ok || !backend.TopicName.MatchString(asked.Topic) {
		return config, 0, protocol.Refuse(kerr.InvalidTopicException,
			fmt.Sprintf("%q is no name for a topic: 1 to 249 of a-z A-Z 0-9 . _ -, and none of the system's", asked.Topic))
	}
	count = asked.NumPartitions
	if asked.NumPartitions == -1 {
		count = s.Partitions
	}
	if count < 1 || count > MaxPartitions {
		return config, 0, protocol.Refuse(kerr.InvalidPartitions, fmt.Sprintf("a topic has 1 to %d partitions, not %d", MaxPartitions, count))
	}
	switch n := asked.ReplicationFactor; {
	case n == 0 || n < -1:
		return config, 0, protocol.Refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("invalid number of replicas: %d", n))
	case n > 0:
		config.Replicas = int(n)
	}
	config.Settings = map[string]string{}
	sized := config
	sized.Replicas = cmp.Or(config.Replicas, min(defaultReplicas, nodes))
	for _, c := range asked.Configs {
		if c.Name == settings.Durability && protocol.Text(c.Value) == nodesettings.Memory.String() {
			config.Durability = nodesettings.Memory
			continue
		}
		if err := give(&sized, c.Name, c.Value); err != nil {
			return config, 0, err
		}
	}
	return settings.Derive(config), count, nil
}

// defaultReplicas is the number of replicas of a topic that requests none, if there are as many
// nodes.
const defaultReplicas = 3

// DeleteTopics deletes topics by name or by id.
func (s *Topics) DeleteTopics(q *backend.Call, m *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	r := kmsg.NewPtrDeleteTopicsResponse()
	asked := m.Topics
	for _, name := range m.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	byID := withID(q)
	for i := range asked {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = asked[i].Topic, asked[i].TopicID
		t, err := toDelete(q, asked[i].Topic, asked[i].TopicID, byID)
		if err == nil {
			out.Topic, out.TopicID = &t.Name, backend.IDOf(q.Node, &t.Partitions[0])
			err = q.Node.DeleteTopic(q.Ctx, q.Caller, t.Name)
		}
		for _, l := range t.Partitions {
			s.Readers.Forget(l.Name)
		}
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Topics = append(r.Topics, out)
	}
	return r
}

// toDelete finds a topic that the client may delete.
func toDelete(q *backend.Call, name *string, id backend.TopicID, byID func(backend.TopicID) (verbs.Topic, error)) (verbs.Topic, error) {
	if name == nil {
		return byID(id)
	}
	return q.TopicFor(guard.DeleteLog, *name)
}

// CreatePartitions adds partitions to topics.
func CreatePartitions(q *backend.Call, m *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	r := kmsg.NewPtrCreatePartitionsResponse()
	for i := range m.Topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = m.Topics[i].Topic
		err := addPartitions(q, &m.Topics[i], m.ValidateOnly)
		if m.Version >= 3 && isBusy(err) {
			err, r.ThrottleMillis = protocol.Refuse(kerr.ThrottlingQuotaExceeded, err.Error()), throttleMillis
		}
		out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
		r.Topics = append(r.Topics, out)
	}
	return r
}

func addPartitions(q *backend.Call, asked *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	t, err := q.TopicFor(guard.AddPartitions, asked.Topic)
	have := int32(len(t.Partitions))
	switch {
	case err != nil:
		return err
	case asked.Count <= have:
		return protocol.Refuse(kerr.InvalidPartitions, fmt.Sprintf("topic %q already has %d partitions", asked.Topic, have))
	case asked.Count > MaxPartitions:
		return protocol.Refuse(kerr.InvalidPartitions, fmt.Sprintf("a topic has 1 to %d partitions, not %d", MaxPartitions, asked.Count))
	case validateOnly:
		return nil
	}
	var on [][]uint64
	for _, a := range asked.Assignment {
		on = append(on, nodeIDs(a.Replicas))
	}
	return assignmentError(q.Node.AddPartitions(q.Ctx, q.Caller, asked.Topic, asked.Count, on), on)
}

// DeleteRecords trims. Offset -1 stands for the end.
func DeleteRecords(q *backend.Call, m *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	r := kmsg.NewPtrDeleteRecordsResponse()
	for _, t := range m.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark = p.Partition, -1
			start, err := trim(q, t.Topic, p.Partition, record.Offset(p.Offset))
			if err != nil {
				out.ErrorCode = protocol.CodeOf(err)
			} else {
				out.LowWatermark = int64(start)
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func trim(q *backend.Call, topic string, partition int32, before record.Offset) (record.Offset, error) {
	ctx := q.Ctx
	log, ok := backend.LogOf(topic, partition)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	switch {
	case before == -1:
		if err := q.May(guard.Trim, log); err != nil {
			return 0, err
		}
		info, err := q.Node.Info(ctx, backend.System, log)
		if err != nil {
			return 0, err
		}
		before = info.End
	case before < 0:
		return 0, kerr.OffsetOutOfRange
	}
	start, _, err := q.Node.Trim(ctx, q.Caller, log, before, false)
	return start, err
}

// DescribeLogDirs lists the logs that this node holds: the data directory is
// all that there is.
func DescribeLogDirs(q *backend.Call, m *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	r := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = "data", -1, -1
	brokers := q.Brokers()
	err := q.May(guard.ObserveCluster, "")
	var all []verbs.Topic
	if err == nil {
		all, err = shownTopics(q)
	}
	dir.ErrorCode = protocol.CodeOf(err)
	wanted := map[string][]int32{}
	for _, t := range m.Topics {
		wanted[t.Topic] = t.Partitions
	}
	for i := range all {
		partitions, asked := wanted[all[i].Name]
		if m.Topics != nil && !asked {
			continue
		}
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = all[i].Name
		for number := range all[i].Partitions {
			l := &all[i].Partitions[number]
			dir.TotalBytes, dir.UsableBytes = l.BytesTotal, l.BytesFree
			if !brokers.Here(l) || len(partitions) > 0 && !slices.Contains(partitions, int32(number)) {
				continue
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = int32(number), l.BytesUsed
			out.Partitions = append(out.Partitions, p)
		}
		if len(out.Partitions) > 0 {
			dir.Topics = append(dir.Topics, out)
		}
	}
	r.Dirs = append(r.Dirs, dir)
	return r
}
