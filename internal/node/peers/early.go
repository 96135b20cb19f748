package peers

import (
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/transport/peer"
)

// early holds messages for logs that this node does not host yet: the first leader of a new log
// asks for votes as soon as it has heard of the log, perhaps before this node has. Without them it
// would have to ask again, a round trip or more later.
type early struct {
	mu   sync.Mutex
	held []earlyMessage
}

// earlyMessage is one of them.
type earlyMessage struct {
	from    peer.NodeID
	log, to uint64
	message []byte
	until   time.Time
}

const (
	// earlyTime is how long a message is held.
	earlyTime = 2 * time.Second
	// maxEarly and maxEarlyBytes bound the messages, and each of them: a vote is smaller.
	maxEarly      = 1024
	maxEarlyBytes = 512
)

// hold keeps a message, unless there are too many.
func (e *early) hold(m earlyMessage) {
	now := time.Now()
	m.until = now.Add(earlyTime)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = slices.DeleteFunc(e.held, func(old earlyMessage) bool { return old.until.Before(now) })
	if len(m.message) <= maxEarlyBytes && len(e.held) < maxEarly {
		e.held = append(e.held, m)
	}
}

// take returns what is held for a log, in order, and holds it no longer.
func (e *early) take(log uint64) (messages []earlyMessage) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = slices.DeleteFunc(e.held, func(m earlyMessage) bool {
		if m.log == log && m.until.After(now) {
			messages = append(messages, m)
		}
		return m.log == log
	})
	return messages
}
