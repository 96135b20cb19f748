package topics

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// lastSequence is the number of the newest batch's last record, as Kafka counts:
// with 31 bits. -1: there is none.
func lastSequence(next record.Sequence) int32 {
	if next == 0 {
		return -1
	}
	return int32((next - 1) % (1 << 31))
}

// InitProducerID reserves an id. It stores nothing: the producer's first batch in a log opens its
// session there. A producer that asks again to raise its epoch gets a new id, which has the same
// effect.
func InitProducerID(q *backend.Call, m *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	r := kmsg.NewPtrInitProducerIDResponse()
	r.ProducerID, r.ProducerEpoch = -1, -1
	if m.TransactionalID != nil {
		// Every client treats this code as final.
		r.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return r
	}
	id, err := q.Node.ReserveSession(q.Ctx, q.Caller)
	if err != nil {
		r.ErrorCode = protocol.CodeOf(protocol.DeniedOn(access.OfCluster, err))
		return r
	}
	r.ProducerID, r.ProducerEpoch = int64(id), 0
	return r
}

// DescribeProducers describes the idempotent producers of a partition. Any replica answers, with
// what it has applied, as tools that name a broker expect.
func DescribeProducers(q *backend.Call, m *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	r := kmsg.NewPtrDescribeProducersResponse()
	for i := range m.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = m.Topics[i].Topic
		for _, number := range m.Topics[i].Partitions {
			one := kmsg.NewDescribeProducersResponseTopicPartition()
			one.Partition = number
			err := describePartitionProducers(q, out.Topic, number, &one)
			one.ErrorCode, one.ErrorMessage = protocol.CodeOf(err), protocol.DetailOf(err)
			out.Partitions = append(out.Partitions, one)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

func describePartitionProducers(q *backend.Call, topic string, number int32, out *kmsg.DescribeProducersResponseTopicPartition) error {
	if backend.IsOffsetsTopic(q.Node, topic, number) {
		return nil // its records are the coordinator's
	}
	log, ok := backend.LogOf(topic, number)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	producers, err := q.Node.Producers(q.Ctx, q.Caller, log)
	for _, p := range producers {
		one := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		one.ProducerID, one.ProducerEpoch, one.LastSequence = int64(p.ID), int32(p.Epoch), lastSequence(p.Next)
		one.LastTimestamp, one.CoordinatorEpoch, one.CurrentTxnStartOffset = -1, -1, -1
		out.ActiveProducers = append(out.ActiveProducers, one)
	}
	return err
}
