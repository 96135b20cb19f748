package topics

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// Kinds of elections.
const (
	ElectPreferred = 0
	ElectUnclean   = 1
)

// ElectLeaders moves the leadership of partitions to their first replicas, which Kafka calls
// preferred. A replica that lacks committed records never becomes the leader.
func ElectLeaders(q *backend.Call, m *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	r := kmsg.NewPtrElectLeadersResponse()
	if err := q.May(guard.TransferLeader, ""); err != nil {
		r.ErrorCode = protocol.CodeOf(err)
		return r
	}
	asked := m.Topics
	if asked == nil {
		all, err := shownTopics(q)
		if err != nil {
			r.ErrorCode = protocol.CodeOf(err)
			return r
		}
		for i := range all {
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic = all[i].Name
			for p := range all[i].Partitions {
				t.Partitions = append(t.Partitions, int32(p))
			}
			asked = append(asked, t)
		}
	}
	brokers := q.Brokers()
	var electing backend.Lookups
	r.Topics = make([]kmsg.ElectLeadersResponseTopic, len(asked))
	for i := range asked {
		out := &r.Topics[i]
		out.Topic = asked[i].Topic
		out.Partitions = make([]kmsg.ElectLeadersResponseTopicPartition, len(asked[i].Partitions))
		for j, number := range asked[i].Partitions {
			out := &out.Partitions[j]
			out.Partition = number
			electing.Add(func() {
				err := elect(q, brokers, asked[i].Topic, number, m.ElectionType)
				out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
			})
		}
	}
	electing.Run()
	return r
}

func elect(q *backend.Call, b *backend.Brokers, topic string, number int32, kind int8) error {
	t, err := shownTopic(q, topic)
	switch {
	case err != nil:
		return err
	case number < 0 || int(number) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	case kind != ElectPreferred && kind != ElectUnclean:
		return protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("unknown type of election: %d", kind))
	}
	l := &t.Partitions[number]
	leader := b.Leader(l)
	on := b.Replicas(l)
	all := on.Voters
	switch {
	case kind == ElectUnclean && leader != backend.NoBroker, len(all) > 0 && leader == all[0]:
		return protocol.Refuse(kerr.ElectionNotNeeded, fmt.Sprintf("node %d already leads the partition", leader))
	case kind == ElectUnclean:
		return protocol.Refuse(kerr.EligibleLeadersNotAvailable, "unclean elections are not supported: the leader must have all committed records")
	case len(all) == 0:
		return kerr.PreferredLeaderNotAvailable
	}
	if err := q.Node.TransferLeader(q.Ctx, q.Caller, l.Name, l.Replicas[0].Node); err != nil {
		return protocol.Refuse(kerr.PreferredLeaderNotAvailable, err.Error())
	}
	return nil
}

// DescribeQuorum describes the log of the cluster's catalog as Kafka's metadata quorum.
func DescribeQuorum(q *backend.Call, m *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	const topic = "__cluster_metadata"
	r := kmsg.NewPtrDescribeQuorumResponse()
	if err := q.May(guard.ObserveCluster, ""); err != nil {
		r.ErrorCode = protocol.CodeOf(err)
		return r
	}
	brokers := q.Brokers()
	status := q.ClusterStatus()
	for i := range m.Topics {
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = m.Topics[i].Topic
		for _, p := range m.Topics[i].Partitions {
			one := kmsg.NewDescribeQuorumResponseTopicPartition()
			one.Partition = p.Partition
			if out.Topic != topic || p.Partition != 0 || !describeCatalog(brokers, status.Logs, &one) {
				one.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			out.Partitions = append(out.Partitions, one)
		}
		r.Topics = append(r.Topics, out)
	}
	for _, b := range brokers.All {
		out := kmsg.NewDescribeQuorumResponseNode()
		out.NodeID = b.ID
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = "PLAINTEXT", b.Host, uint16(b.Port)
		out.Listeners = append(out.Listeners, l)
		r.Nodes = append(r.Nodes, out)
	}
	return r
}

func describeCatalog(b *backend.Brokers, logs []verbs.LogStatus, out *kmsg.DescribeQuorumResponseTopicPartition) bool {
	for i := range logs {
		l := &logs[i]
		if l.Name != verbs.CatalogLog {
			continue
		}
		out.LeaderID, out.LeaderEpoch, out.HighWatermark = backend.NoBroker, int32(l.Term), int64(l.End)
		if id, ok := b.ByName[l.Leader]; ok {
			out.LeaderID = id
		}
		for _, held := range l.Replicas {
			one := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			one.ReplicaID, one.LogEndOffset = b.ByName[held.Node], int64(held.End)
			if held.Role == verbs.Voter {
				out.CurrentVoters = append(out.CurrentVoters, one)
			} else {
				out.Observers = append(out.Observers, one)
			}
		}
		return true
	}
	return false
}
