package core

import "time"

// timing is when the oldest request of a proposal arrived, and when it was
// proposed; see Now.Nano.
type timing struct{ oldest, proposed int64 }

// measured reports how long a proposal that has committed took.
func (c *Core) measured(t timing) {
	if c.committed != nil && t.oldest != 0 {
		c.committed(time.Duration(max(t.proposed-t.oldest, 0)), time.Duration(c.now.Nano-t.proposed))
	}
}
