package kafkadoor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/record"
)

func (q *call) createTopics(m *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	r := kmsg.NewPtrCreateTopicsResponse()
	for i := range m.Topics {
		asked := &m.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = asked.Topic
		t, err := q.createTopic(asked, m.ValidateOnly)
		out.ErrorCode, out.ErrorMessage = codeOf(err), detailOf(err)
		if err == nil {
			out.NumPartitions, out.ReplicationFactor = int32(len(t.partitions)), 1
			for _, c := range describeTopicConfigs(&t, nil, false) {
				shown := kmsg.NewCreateTopicsResponseTopicConfig()
				shown.Name, shown.Value, shown.ReadOnly, shown.Source = c.Name, c.Value, c.ReadOnly, int8(c.Source)
				out.Configs = append(out.Configs, shown)
			}
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

// createTopic makes the logs of a topic. Partition 0 comes last: with it the
// topic is there, whole. What an earlier creation or deletion that was not
// finished left behind is removed first.
func (q *call) createTopic(asked *kmsg.CreateTopicsRequestTopic, validateOnly bool) (topic, error) {
	s, ctx := q.connection.server, q.connection.ctx
	t := topic{name: asked.Topic}
	config, count, err := planTopic(asked)
	if err != nil {
		return t, err
	}
	switch _, err := s.topic(asked.Topic); {
	case err == nil:
		return t, refuse(kerr.TopicAlreadyExists, fmt.Sprintf("there is a topic %q already", asked.Topic))
	case !errors.Is(err, &record.Refusal{Reason: record.LogNotFound}):
		return t, err
	}
	if validateOnly {
		for i := range count {
			t.partitions = append(t.partitions, node.Info{Name: node.PartitionLog(asked.Topic, int32(i)), Config: config})
		}
		return t, nil
	}
	if err := s.deletePartitions(ctx, asked.Topic, 1); err != nil {
		return t, err
	}
	t.partitions = make([]node.Info, count)
	for i := count - 1; i >= 0; i-- {
		if t.partitions[i], err = s.createPartition(ctx, asked.Topic, int32(i), config); err != nil {
			return t, err
		}
	}
	return t, nil
}

// planTopic checks what a topic is to be like.
func planTopic(asked *kmsg.CreateTopicsRequestTopic) (config node.Config, count int, err error) {
	if !topicName.MatchString(asked.Topic) {
		return config, 0, refuse(kerr.InvalidTopicException,
			fmt.Sprintf("%q is no name for a topic: 1 to 200 of a-z A-Z 0-9 . _ -, not beginning with _", asked.Topic))
	}
	if len(asked.ReplicaAssignment) > 0 {
		return config, 0, refuse(kerr.InvalidReplicaAssignment, "replicas are placed by the cluster: give a number of partitions and of replicas")
	}
	count = int(asked.NumPartitions)
	if asked.NumPartitions == -1 {
		count = 1
	}
	if count < 1 || count > maxPartitions {
		return config, 0, refuse(kerr.InvalidPartitions, fmt.Sprintf("%d partitions; a topic has 1 to %d", count, maxPartitions))
	}
	switch n := asked.ReplicationFactor; {
	case n == 0 || n < -1:
		return config, 0, refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("%d replicas", n))
	case n > 0:
		config.Replicas = int(n)
	}
	for _, c := range asked.Configs {
		if err := setConfig(&config, c.Name, c.Value, true); err != nil {
			return config, 0, err
		}
	}
	return config, count, nil
}

func (s *Server) createPartition(ctx context.Context, topic string, partition int32, config node.Config) (node.Info, error) {
	config.Topic, config.Partition = "", 0
	if partition > 0 {
		config.Topic, config.Partition = topic, partition
	}
	l, err := s.node.CreateLog(ctx, anonymous, node.PartitionLog(topic, partition), config)
	if errors.Is(err, &record.Refusal{Reason: record.Unsupported}) {
		return l, refuse(kerr.InvalidReplicationFactor, *detailOf(err))
	}
	return l, err
}

// deletePartitions deletes the logs of a topic from a partition on, the last
// one first.
func (s *Server) deletePartitions(ctx context.Context, name string, from int32) error {
	logs, err := s.node.ListLogs(ctx, anonymous, false)
	if err != nil {
		return err
	}
	most := int32(-1)
	there := map[int32]bool{}
	for i := range logs {
		if topic, p := logs[i].TopicOf(); topic == name && p >= from {
			there[p], most = true, max(most, p)
		}
	}
	for p := most; p >= from; p-- {
		if !there[p] {
			continue
		}
		log := node.PartitionLog(name, p)
		s.readers.forget(log)
		if err := s.node.DeleteLog(ctx, anonymous, log); err != nil {
			return err
		}
	}
	return nil
}

func (q *call) deleteTopics(m *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	r := kmsg.NewPtrDeleteTopicsResponse()
	for _, name := range m.TopicNames {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic = &name
		_, err := q.connection.server.topic(name)
		if err == nil {
			err = q.connection.server.deletePartitions(q.connection.ctx, name, 0)
		}
		out.ErrorCode, out.ErrorMessage = codeOf(err), detailOf(err)
		r.Topics = append(r.Topics, out)
	}
	return r
}

func (q *call) createPartitions(m *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	r := kmsg.NewPtrCreatePartitionsResponse()
	for i := range m.Topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = m.Topics[i].Topic
		err := q.addPartitions(&m.Topics[i], m.ValidateOnly)
		out.ErrorCode, out.ErrorMessage = codeOf(err), detailOf(err)
		r.Topics = append(r.Topics, out)
	}
	return r
}

func (q *call) addPartitions(asked *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	s := q.connection.server
	t, err := s.topic(asked.Topic)
	have := int32(len(t.partitions))
	switch {
	case err != nil:
		return err
	case len(asked.Assignment) > 0:
		return refuse(kerr.InvalidReplicaAssignment, "replicas are placed by the cluster")
	case asked.Count <= have:
		return refuse(kerr.InvalidPartitions, fmt.Sprintf("topic %q has %d partitions already", asked.Topic, have))
	case asked.Count > maxPartitions:
		return refuse(kerr.InvalidPartitions, fmt.Sprintf("%d partitions; a topic has 1 to %d", asked.Count, maxPartitions))
	case validateOnly:
		return nil
	}
	for p := have; p < asked.Count; p++ {
		if _, err := s.createPartition(q.connection.ctx, asked.Topic, p, t.partitions[0].Config); err != nil {
			return err
		}
	}
	return nil
}

// deleteRecords trims. Offset -1 stands for the end.
func (q *call) deleteRecords(m *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	r := kmsg.NewPtrDeleteRecordsResponse()
	for _, t := range m.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark = p.Partition, -1
			start, err := q.trim(t.Topic, p.Partition, record.Offset(p.Offset))
			if err != nil {
				out.ErrorCode = codeOf(err)
			} else {
				out.LowWatermark = int64(start)
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func (q *call) trim(topic string, partition int32, before record.Offset) (record.Offset, error) {
	s, ctx := q.connection.server, q.connection.ctx
	log, ok := logOf(topic, partition)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	switch {
	case before == -1:
		info, err := s.node.Info(ctx, anonymous, log)
		if err != nil {
			return 0, err
		}
		before = info.End
	case before < 0:
		return 0, kerr.OffsetOutOfRange
	}
	start, _, err := s.node.Trim(ctx, anonymous, log, before, false)
	return start, err
}

func (q *call) describeLogDirs(m *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	r := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = "data", -1, -1
	all, err := q.connection.server.topics(q.connection.ctx)
	dir.ErrorCode = codeOf(err)
	wanted := map[string][]int32{}
	for _, t := range m.Topics {
		wanted[t.Topic] = t.Partitions
	}
	for i := range all {
		partitions, asked := wanted[all[i].name]
		if m.Topics != nil && !asked {
			continue
		}
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = all[i].name
		for number, l := range all[i].partitions {
			dir.TotalBytes, dir.UsableBytes = l.BytesTotal, l.BytesFree
			if m.Topics != nil && !contains(partitions, int32(number)) {
				continue
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = int32(number), l.BytesUsed
			out.Partitions = append(out.Partitions, p)
		}
		dir.Topics = append(dir.Topics, out)
	}
	r.Dirs = append(r.Dirs, dir)
	return r
}

// contains reports whether a partition is asked for; none given means all.
func contains(partitions []int32, p int32) bool {
	for _, other := range partitions {
		if other == p {
			return true
		}
	}
	return len(partitions) == 0
}
