package catalog

import (
	"sync"

	"strandline.dev/internal/cluster"
)

// topicIDs finds topics by their ids. It is kept with every change that is folded, so that a lookup
// does not walk all logs. It may be ahead of Catalog.Shown.
type topicIDs struct {
	mu    sync.RWMutex
	known map[cluster.TopicID]firstLog
}

// firstLog is the log with partition 0 of a topic, which has the topic's name.
type firstLog struct {
	name string
	id   uint64
}

// fold learns a change before it is folded into the state.
func (t *topicIDs) fold(id func(log uint64) cluster.TopicID, before *cluster.State, c *cluster.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	put := func(l *cluster.Log) {
		if l.Config.Topic == "" {
			t.known[id(l.ID)] = firstLog{l.Name, l.ID}
		}
	}
	if c.Checkpoint != nil {
		t.known = make(map[cluster.TopicID]firstLog, len(c.Checkpoint.Logs))
		for _, l := range c.Checkpoint.Logs {
			put(&l)
		}
	}
	for i := range c.Put {
		if was, there := before.Logs[c.Put[i].Name]; there && was.ID == c.Put[i].ID {
			continue
		} else if there {
			delete(t.known, id(was.ID))
		}
		put(&c.Put[i])
	}
	for _, name := range c.Delete {
		if was, there := before.Logs[name]; there {
			delete(t.known, id(was.ID))
		}
	}
}

// TopicWithID finds the topic with an id in the shown state, and returns its name and that state.
// ok is false if this node does not know such a topic.
func (c *Catalog) TopicWithID(id cluster.TopicID) (name string, state *cluster.State, ok bool) {
	c.topics.mu.RLock()
	first, ok := c.topics.known[id]
	c.topics.mu.RUnlock()
	if !ok {
		return "", nil, false
	}
	state = c.Shown.Load()
	l, ok := state.Logs[first.name]
	return first.name, state, ok && l.ID == first.id
}
