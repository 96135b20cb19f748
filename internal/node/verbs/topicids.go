package verbs

import (
	"context"

	"strandline.dev/internal/cluster"
)

// KnownTopic is a topic as one state of the catalog has it.
type KnownTopic struct {
	Name  string
	state *cluster.State
}

// LogID returns the id of a log in that state; 0 if there is none. With the id in Caller.Log, a verb
// is about the log of this topic, even if a topic of its name was created since.
func (t *KnownTopic) LogID(log string) uint64 {
	if t.state == nil {
		return 0
	}
	return t.state.Logs[log].ID
}

// KnownTopic finds a topic by its id, as far as this node knows. The call is cheap.
func (tp *TopicAdmin) KnownTopic(id cluster.TopicID) (KnownTopic, bool) {
	c := tp.catalog.Load()
	if c == nil {
		return KnownTopic{}, false
	}
	name, state, ok := c.TopicWithID(id)
	return KnownTopic{name, state}, ok
}

// LearnTopics makes this node know every topic that was created before the call.
func (tp *TopicAdmin) LearnTopics(ctx context.Context) error {
	c := tp.catalog.Load()
	if c == nil {
		return tp.self.NotMember()
	}
	if err := c.Refresh(ctx); err != nil {
		return err
	}
	tp.opener.Rehost()
	return nil
}
