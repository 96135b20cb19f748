package topics

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node/verbs"
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

// withID returns how to find a topic by its id. All topics that the client may see are listed once, when the
// first is looked for: a request may have very many ids.
func withID(q *backend.Call) func(topicID) (verbs.Topic, error) {
	list := sync.OnceValues(func() (map[topicID]verbs.Topic, error) {
		all, err := q.Node.Topics(q.Ctx, q.Caller)
		byID := make(map[topicID]verbs.Topic, len(all))
		for _, t := range all {
			byID[topicIDOf(q.Node.ClusterID(), t.Partitions[0].ID)] = t
		}
		return byID, err
	})
	return func(id topicID) (verbs.Topic, error) {
		byID, err := list()
		if err != nil {
			return verbs.Topic{}, err
		}
		t, ok := byID[id]
		if !ok {
			return verbs.Topic{}, errNoTopicID
		}
		return t, nil
	}
}

var errNoTopicID = protocol.Refuse(kerr.UnknownTopicID, "no topic has this id")
