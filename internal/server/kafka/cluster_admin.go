package kafkaserver

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// Kinds of elections that ElectLeaders knows.
const (
	electPreferred = 0
	electUnclean   = 1
)

// electLeaders hands partitions over to the first of their replicas, which is the
// one that Kafka calls preferred. Of no partition is the leader ever chosen among
// replicas that lack a record.
func (q *call) electLeaders(m *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	r := kmsg.NewPtrElectLeadersResponse()
	if err := q.connection.may("transfer-leader", access.Administer, access.OfCluster); err != nil {
		r.ErrorCode = protocol.CodeOf(err)
		return r
	}
	asked := m.Topics
	if asked == nil {
		all, err := q.connection.server.node.Topics(q.connection.ctx, q.connection.caller())
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
	brokers := q.brokers()
	var electing lookups
	r.Topics = make([]kmsg.ElectLeadersResponseTopic, len(asked))
	for i := range asked {
		out := &r.Topics[i]
		out.Topic = asked[i].Topic
		out.Partitions = make([]kmsg.ElectLeadersResponseTopicPartition, len(asked[i].Partitions))
		for j, number := range asked[i].Partitions {
			out := &out.Partitions[j]
			out.Partition = number
			electing.add(func() {
				err := q.elect(brokers, asked[i].Topic, number, m.ElectionType)
				out.ErrorCode, out.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
			})
		}
	}
	electing.run()
	return r
}

func (q *call) elect(b *brokers, topic string, number int32, kind int8) error {
	t, err := q.topic(topic)
	switch {
	case err != nil:
		return err
	case number < 0 || int(number) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	case kind != electPreferred && kind != electUnclean:
		return protocol.Refuse(kerr.InvalidRequest, fmt.Sprintf("%d is no kind of election", kind))
	}
	l := &t.Partitions[number]
	leader := b.leader(l)
	all, _ := b.replicas(l)
	switch {
	case kind == electUnclean && leader != noBroker, len(all) > 0 && leader == all[0]:
		return protocol.Refuse(kerr.ElectionNotNeeded, fmt.Sprintf("node %d leads it", leader))
	case kind == electUnclean:
		return protocol.Refuse(kerr.EligibleLeadersNotAvailable, "no leader is elected that may lack a committed record")
	case len(all) == 0:
		return kerr.PreferredLeaderNotAvailable
	}
	if err := q.connection.server.node.TransferLeader(q.connection.ctx, q.connection.caller(), l.Name, l.Replicas[0].Node); err != nil {
		return protocol.Refuse(kerr.PreferredLeaderNotAvailable, err.Error())
	}
	return nil
}

// describeQuorum describes the log that holds the cluster's catalog as what Kafka's
// tools call the metadata quorum.
func (q *call) describeQuorum(m *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	const topic = "__cluster_metadata"
	r := kmsg.NewPtrDescribeQuorumResponse()
	if err := q.connection.may("observe", access.Observe, access.OfCluster); err != nil {
		r.ErrorCode = protocol.CodeOf(err)
		return r
	}
	brokers := q.brokers()
	status := q.connection.server.clusterStatus(q.connection.ctx)
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
	for _, b := range brokers.all {
		out := kmsg.NewDescribeQuorumResponseNode()
		out.NodeID = b.id
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = "PLAINTEXT", b.host, uint16(b.port)
		out.Listeners = append(out.Listeners, l)
		r.Nodes = append(r.Nodes, out)
	}
	return r
}

func describeCatalog(b *brokers, logs []node.LogStatus, out *kmsg.DescribeQuorumResponseTopicPartition) bool {
	for i := range logs {
		l := &logs[i]
		if l.Name != node.CatalogLog {
			continue
		}
		out.LeaderID, out.LeaderEpoch, out.HighWatermark = noBroker, int32(l.Term), int64(l.End)
		if id, ok := b.byName[l.Leader]; ok {
			out.LeaderID = id
		}
		for _, held := range l.Replicas {
			one := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			one.ReplicaID, one.LogEndOffset = b.byName[held.Node], int64(held.End)
			if held.Role == node.Voter {
				out.CurrentVoters = append(out.CurrentVoters, one)
			} else {
				out.Observers = append(out.Observers, one)
			}
		}
		return true
	}
	return false
}

// describeProducers describes the idempotent producers that a partition knows.
func (q *call) describeProducers(m *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	r := kmsg.NewPtrDescribeProducersResponse()
	for i := range m.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = m.Topics[i].Topic
		for _, number := range m.Topics[i].Partitions {
			one := kmsg.NewDescribeProducersResponseTopicPartition()
			one.Partition = number
			err := q.describePartitionProducers(out.Topic, number, &one)
			one.ErrorCode, one.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
			out.Partitions = append(out.Partitions, one)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

func (q *call) describePartitionProducers(topic string, number int32, out *kmsg.DescribeProducersResponseTopicPartition) error {
	log, ok := backend.LogOf(topic, number)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	s := q.connection.server
	if b, err := s.node.Bounds(q.connection.caller(), log); err != nil {
		return err
	} else if !b.Leading {
		return kerr.NotLeaderForPartition
	}
	producers, err := s.node.Producers(q.connection.ctx, q.connection.caller(), log)
	for _, p := range producers {
		one := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		one.ProducerID, one.ProducerEpoch, one.LastSequence = int64(p.ID), int32(p.Epoch), lastSequence(p.Next)
		one.LastTimestamp, one.CoordinatorEpoch, one.CurrentTxnStartOffset = -1, -1, -1
		out.ActiveProducers = append(out.ActiveProducers, one)
	}
	return err
}
