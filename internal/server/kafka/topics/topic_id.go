package topics

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// topicID distinguishes a topic from any other of its name, here or in another cluster: a
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

// topicWithID finds a topic by its id.
func topicWithID(q *backend.Call, id topicID) (node.Topic, error) {
	all, err := q.Node.Topics(q.Ctx, q.Caller)
	if err != nil {
		return node.Topic{}, err
	}
	for i := range all {
		if topicIDOf(q.Node.ClusterID(), all[i].Partitions[0].ID) == id {
			return all[i], nil
		}
	}
	return node.Topic{}, protocol.Refuse(kerr.UnknownTopicID, "no topic has this id")
}
