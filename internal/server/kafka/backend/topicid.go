package backend

import (
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/protocol"
)

// TopicID is the id of a topic; zero in a request that names topics.
type TopicID = cluster.TopicID

// IDOf returns the id of the topic whose partition 0 is a log.
func IDOf(n Node, first *verbs.Info) TopicID { return cluster.TopicIDOf(n.ClusterID(), first.ID) }

// ByID is a topic that a request names by its id.
type ByID struct {
	Topic string
	known verbs.KnownTopic
}

// FindByID finds a topic by its id among those that the caller may observe, as far as this node
// knows.
func FindByID(n Node, c verbs.Caller, id TopicID) (ByID, error) {
	t, ok := n.KnownTopic(c, id)
	switch {
	case !ok:
		if t, ok = n.KnownTopic(System, id); ok && t.Name == OffsetsLog {
			return ByID{Topic: OffsetsTopic}, nil // every client sees it
		}
		return ByID{}, ErrNoTopicID
	case t.Name == OffsetsLog:
		return ByID{Topic: OffsetsTopic}, nil
	case verbs.IsSystem(t.Name):
		return ByID{}, ErrNoTopicID
	}
	return ByID{t.Name, t}, nil
}

// WithID returns FindByID for a request that may have many ids. The first unknown id makes this node
// learn the newest topics.
func WithID(q *Call) func(TopicID) (ByID, error) {
	learn := sync.OnceValue(func() error { return q.Node.LearnTopics(q.Ctx, q.Caller) })
	return func(id TopicID) (ByID, error) {
		found, err := FindByID(q.Node, q.Caller, id)
		if err == nil {
			return found, nil
		}
		if err := learn(); err != nil {
			return ByID{}, err
		}
		return FindByID(q.Node, q.Caller, id)
	}
}

// LogID returns the id of the log of a partition of this topic, for verbs.Caller.Log. It is an error
// if there is no such partition.
func (t *ByID) LogID(log string) (uint64, error) {
	if id := t.known.LogID(log); id != 0 {
		return id, nil
	}
	return 0, kerr.UnknownTopicOrPartition
}

// ErrNoTopicID is the error for an id that no topic has.
var ErrNoTopicID = protocol.Refuse(kerr.UnknownTopicID, "no topic has this id")

// Replaced returns ErrNoTopicID for the error of a verb that a caller made of a log by its id, if
// that log was deleted meanwhile, and err otherwise.
func Replaced(err error) error {
	if errors.Is(err, &record.Refusal{Reason: record.LogReplaced}) || errors.Is(err, &record.Refusal{Reason: record.LogNotFound}) {
		return ErrNoTopicID
	}
	return err
}
