package topics

import (
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/kafka/backend"
)

// withID returns a function that describes a topic with an id among those that the client may see.
func withID(q *backend.Call) func(backend.TopicID) (verbs.Topic, error) {
	find := backend.WithID(q)
	return func(id backend.TopicID) (verbs.Topic, error) {
		found, err := find(id)
		if err != nil {
			return verbs.Topic{}, err
		}
		t, err := q.Topic(found.Topic)
		if err == nil && backend.IDOf(q.Node, &t.Partitions[0]) != id {
			err = backend.ErrNoTopicID
		}
		return t, backend.Replaced(err)
	}
}
