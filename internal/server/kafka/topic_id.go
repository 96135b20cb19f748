package kafkaserver

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node"
	"strandline.dev/internal/server/kafka/protocol"
)

// topicID tells a topic from any other of its name, here or in another cluster: a
// client that knows a topic by a leader epoch forgets that epoch when the id
// changes, and would otherwise not believe that a topic made anew begins at a
// lower one.
type topicID = [16]byte

// topicIDOf makes the id of a topic from the cluster's and that of the log which
// holds its first partition. A log that is made anew has another.
func topicIDOf(cluster string, log uint64) topicID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(cluster), log))
	id := topicID(sum[:16])
	id[0] &= 0x7f // its base64, which tools take as an argument, does not begin with a dash
	return id
}

func (s *Server) topicID(t *node.Topic) topicID {
	return topicIDOf(s.node.ClusterID(), t.Partitions[0].ID)
}

// topicWithID finds a topic by its id.
func (q *call) topicWithID(id topicID) (node.Topic, error) {
	s := q.connection.server
	all, err := s.node.Topics(q.connection.ctx, q.connection.caller())
	if err != nil {
		return node.Topic{}, err
	}
	for i := range all {
		if s.topicID(&all[i]) == id {
			return all[i], nil
		}
	}
	return node.Topic{}, protocol.Refuse(kerr.UnknownTopicID, "no topic has this id")
}
