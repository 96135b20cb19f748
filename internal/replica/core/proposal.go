package core

// proposal is an entry that Raft was given and that has not committed.
type proposal struct {
	number  uint64 // the sequencer's number of it
	drain   uint64 // the drain of the queue that it came with
	index   uint64 // 0 until Raft has placed it
	crc     uint32
	bytes   int   // of the appends that were drained, on the last proposal of a drain
	durable int64 // monotonic ms when it was on this disk; 0: it is not yet
	timing  timing
	answers []Answered
	written []func() // see Request.Written
}

// progress is how much is proposed and has not committed.
type progress struct {
	drains   int
	unstored int // drains that are not on this disk yet
	bytes    int // of all appends
	newest   int // of those in the newest drain
}

func (c *Core) progress() (p progress) {
	for i := range c.proposals {
		f := &c.proposals[i]
		if last := i+1 == len(c.proposals) || c.proposals[i+1].drain != f.drain; last {
			p.drains++
			p.bytes += f.bytes
			p.newest = f.bytes
			if f.durable == 0 {
				p.unstored++
			}
		}
	}
	return p
}

// mayPropose reports whether another drain may begin. While one is being synced a
// second one forms, but not before as much waits as is on its way: a second one
// with the first request that comes would leave all the others to a third, and
// every append would wait for three syncs instead of two.
//
// Across slow links what is on this disk already waits for the network alone.
// Then others follow without waiting for it, up to a window of bytes.
func (c *Core) mayPropose() bool {
	p := c.progress()
	switch {
	case c.handover.to != 0:
		return false
	case p.drains == 0:
		return true
	case c.highLatency:
		return p.unstored < maxDrains && p.bytes < windowBytes
	case p.drains >= maxDrains:
		return false
	}
	return c.queued >= p.newest
}

// commitProposals takes the proposals out that have committed, and delivers their
// answers.
func (c *Core) commitProposals(commit uint64) {
	n := 0
	for n < len(c.proposals) && c.proposals[n].index != 0 && c.proposals[n].index <= commit {
		f := &c.proposals[n]
		c.highLatency = f.durable != 0 && c.now.Monotonic-f.durable >= highLatencyMillis
		c.out.Answers = append(c.out.Answers, f.answers...)
		c.measured(f.timing)
		n++
	}
	left := copy(c.proposals, c.proposals[n:])
	clear(c.proposals[left:])
	c.proposals = c.proposals[:left]
}

// madeDurable takes a write that is durable into account. Of its entries those
// count that have not been replaced since: it was on its way while others came.
func (c *Core) madeDurable(w *Write) {
	if w.Install != nil {
		c.durable = max(c.durable, w.Install.Index)
	}
	for i := len(w.Frames) - 1; i >= 0; i-- {
		f := &w.Frames[i]
		if e, ok := c.tail.At(f.Index); ok && e.GetTerm() == f.Term {
			c.durable = max(c.durable, f.Index)
			break
		}
	}
	for i := range c.proposals {
		if f := &c.proposals[i]; f.durable == 0 && f.index != 0 && f.index <= c.durable {
			f.durable = max(c.now.Monotonic, 1)
		}
	}
}
