package kafkaserver

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/server/kafka/backend"
)

// offsetsTopic is what Kafka's tools call the log of committed offsets. It is
// shown as an internal topic with one partition, as tools expect, and to them it is
// empty: what the log holds is not what they could read.
const offsetsTopic = "__consumer_offsets"

func (q *call) offsetsTopic(b *brokers) (kmsg.MetadataResponseTopic, bool) {
	l, err := q.connection.server.node.KnownInfo(backend.System, offsetsLog)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, false // nothing has been committed yet
	}
	out := b.describe(&node.Topic{Name: offsetsTopic, Partitions: []node.Info{l}})
	out.IsInternal = true
	return out, true
}

// isOffsetsTopic reports whether a partition is the one of the internal topic.
func (s *Server) isOffsetsTopic(topic string, partition int32) bool {
	if topic != offsetsTopic || partition != 0 {
		return false
	}
	_, err := s.node.KnownInfo(backend.System, offsetsLog)
	return err == nil
}

// fillInternal answers a Fetch of the internal topic: nothing, and nothing will come.
func (p *fetchPart) fillInternal(at int64) error {
	p.internal = true
	if at != 0 {
		return kerr.OffsetOutOfRange
	}
	return nil
}
