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

// topicID distinguishes a topic from any other of its name, here or in another cluster. A client
// remembers the leader epoch of a topic and forgets it when the id changes; otherwise it would not
// accept that a recreated topic begins at a lower epoch.
type topicID = [16]byte

// topicIDOf returns the id of a topic from the id of the cluster and that of the log with its first
// partition. A recreated log has another id.
func topicIDOf(cluster string, log uint64) topicID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(cluster), log))
	id := topicID(sum[:16])
	id[0] &= 0x7f // so that its base64, which tools accept as an argument, does not begin with a dash
	return id
}

// withID returns a function that finds a topic by its id. It lists all topics that the client may
// see once, at the first call, because a request may have many ids.
func withID(q *backend.Call) func(topicID) (verbs.Topic, error) {
	list := sync.OnceValues(func() (map[topicID]verbs.Topic, error) {
		_ = q.Node.PaceList(q.Ctx, q.Caller) // whoever has waited gets it
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
