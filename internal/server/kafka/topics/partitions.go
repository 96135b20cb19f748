package topics

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// maxDescribed bounds the partitions in one answer to DescribeTopicPartitions.
const maxDescribed = 2000

// DescribeTopicPartitions describes the named topics, or all, in the order of their names. An
// answer that does not have all names where the next one begins. No code says that topics could not
// be listed: then the next answer begins where this one should have begun.
func (s *Topics) DescribeTopicPartitions(q *backend.Call, m *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	r := kmsg.NewPtrDescribeTopicPartitionsResponse()
	from := kmsg.NewDescribeTopicPartitionsRequestCursor()
	if m.Cursor != nil {
		from = *m.Cursor
	}
	left := int(min(max(m.ResponsePartitionLimit, 1), maxDescribed))
	brokers := q.Brokers()
	names, err := s.namesOf(q, m.Topics)
	if err != nil && record.RefusalOf(err).Reason.Retryable() {
		r.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: from.Topic, Partition: from.Partition}
	}
	for _, name := range names {
		if name < from.Topic {
			continue
		}
		if left == 0 {
			r.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			break
		}
		t, err := shownTopic(q, name)
		if err != nil {
			r.Topics = append(r.Topics, withoutPartitions(noTopic(&kmsg.MetadataRequestTopic{Topic: &name}, err)))
			continue
		}
		t.Name = name
		described := describe(q, brokers, &t)
		described.IsInternal = name == backend.OffsetsTopic
		out, first := withoutPartitions(described), 0
		if name == from.Topic {
			first = min(max(int(from.Partition), 0), len(described.Partitions))
		}
		last := min(first+left, len(described.Partitions))
		for i := range described.Partitions[first:last] {
			out.Partitions = append(out.Partitions, partitionOf(&described.Partitions[first+i]))
		}
		left -= last - first
		r.Topics = append(r.Topics, out)
		if last < len(described.Partitions) {
			r.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: int32(last)}
			break
		}
	}
	return r
}

// namesOf returns the names of the requested topics, or of all that the client may see, sorted.
func (s *Topics) namesOf(q *backend.Call, asked []kmsg.DescribeTopicPartitionsRequestTopic) (names []string, err error) {
	for i := range asked {
		names = append(names, asked[i].Topic)
	}
	if len(asked) == 0 {
		all, err := shownTopics(q)
		if err != nil {
			s.Unlisted.Do(func() { s.Logger.Warn("could not list topics, perhaps not only once", "error", err) })
			return nil, err
		}
		for i := range all {
			names = append(names, all[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func withoutPartitions(t kmsg.MetadataResponseTopic) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.ErrorCode, out.Topic, out.TopicID, out.IsInternal = t.ErrorCode, t.Topic, t.TopicID, t.IsInternal
	out.AuthorizedOperations = protocol.NoOperations
	return out
}

func partitionOf(p *kmsg.MetadataResponseTopicPartition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.ErrorCode, out.Partition, out.LeaderID, out.LeaderEpoch = p.ErrorCode, p.Partition, p.Leader, p.LeaderEpoch
	out.Replicas, out.ISR, out.OfflineReplicas = p.Replicas, p.ISR, p.OfflineReplicas
	// Every replica that may become the leader is in ISR. Java's client does not expect null.
	out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
	return out
}
