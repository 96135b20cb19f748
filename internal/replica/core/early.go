package core

import (
	"strandline.dev/internal/sequence"
)

// notice lets the caller of an accepted append know when it is written, before
// it is durable: Request.Written.
func (c *Core) notice(q *Request, a sequence.Answer) {
	if q.Written == nil || a.Refusal != nil || a.RestsOn == 0 {
		return
	}
	for i := len(c.proposals) - 1; i >= 0; i-- {
		if f := &c.proposals[i]; f.number == a.RestsOn && f.index == 0 {
			f.written = append(f.written, func() { q.Written(a) })
			return
		}
	}
}

// noticed takes those that wait for the proposals which the write at hand holds.
func (c *Core) noticed() func() {
	all := c.written
	c.written = nil
	if len(all) == 0 {
		return nil
	}
	return func() {
		for _, tell := range all {
			tell()
		}
	}
}
