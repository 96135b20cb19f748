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

// InitProducerID reserves an id. Nothing is kept: the producer's first batch in
// a log opens its session there. A producer that asks again, to raise its
// epoch, gets a new id, which serves it as well.
func InitProducerID(q *backend.Call, m *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	r := kmsg.NewPtrInitProducerIDResponse()
	r.ProducerID, r.ProducerEpoch = -1, -1
	if m.TransactionalID != nil {
		// The one code that every client takes for final.
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
