package core

import (
	"strandline.dev/internal/budget"
	"strandline.dev/internal/sequence"
)

// sessionMemory counts what a log remembers of its sessions in the node's memory. What
// has committed cannot be refused, so a follower counts what its leader has accepted.
type sessionMemory struct {
	all     *budget.Shares
	counted int64 // in all, of this log
}

func (m *sessionMemory) count(bytes int64) {
	if bytes != m.counted {
		m.all.Changed(m.counted, bytes)
		m.counted = bytes
	}
}

// left is how much there is for more.
func (m *sessionMemory) left() sequence.MemoryLeft {
	switch {
	case m.all.Full():
		return sequence.MemoryUsedUp
	case m.all.Used() > m.all.Size()/8*7:
		return sequence.MemoryTight
	}
	return sequence.MemoryAmple
}

// Release gives back what the core holds of the node's memory, when its replica has
// ended.
func (c *Core) Release() {
	c.storage.tail.Release()
	c.sessions.count(0)
}
