package judge

import (
	"math"

	"strandline.dev/test/history"
)

// hold: while a hold is certainly there, the log begins nowhere behind it. It is there
// from the answer that it was set until somebody begins to release it, or its lease may
// have run out.
type hold struct {
	idle
	court
	holds map[*book]map[string]*held
}

// held is what a hold keeps for certain.
type held struct {
	keeps int64 // the highest offset at which the hold may be
	lease int64 // ns; 0: none
	until int64 // ns
	at    history.Place
}

func newHold(c court, _ Options) rule { return &hold{court: c, holds: map[*book]map[string]*held{}} }

func (h *hold) invoked(c *call) {
	known := h.holds[c.book][c.hold]
	switch {
	case known == nil:
	case c.verb == history.SetHold && c.from == none: // it may go anywhere
		delete(h.holds[c.book], c.hold)
	case c.verb == history.SetHold:
		known.keeps = max(known.keeps, c.from) // from now on it may be there
	case c.verb == history.ReleaseHold:
		delete(h.holds[c.book], c.hold)
	}
}

func (h *hold) reported(c *call, e *history.Event, at history.Place) {
	if e.Start == nil {
		return
	}
	for name, known := range h.holds[c.book] {
		if *e.Start > known.keeps && e.Time < known.until {
			h.accuse(c.book, []history.Place{known.at, at}, "the log begins at offset %d, and hold %s keeps all from %d on", *e.Start, name, known.keeps)
			delete(h.holds[c.book], name)
		}
	}
}

func (h *hold) returned(c *call, e *history.Event, at history.Place) {
	known := h.holds[c.book][c.hold]
	switch {
	case c.verb == history.SetHold && e.Outcome == history.OK && e.First != nil:
		if h.holds[c.book] == nil {
			h.holds[c.book] = map[string]*held{}
		}
		h.holds[c.book][c.hold] = &held{*e.First, c.lease, c.leased(), at}
	case known == nil || c.verb != history.KeepHold:
	case e.Outcome == history.OK && known.lease > 0:
		known.until = max(known.until, c.began+known.lease-leaseSlack)
	case e.Outcome == history.Failed && e.Reason == "HOLD_NOT_FOUND":
		if e.Time < known.until {
			h.accuse(c.book, []history.Place{known.at, c.invoked, at}, "hold %s is gone, and nobody has released it", c.hold)
		}
		delete(h.holds[c.book], c.hold)
	}
}

// leased is the time, in ns, until which what c has set stays at least.
func (c *call) leased() int64 {
	if c.lease == 0 {
		return math.MaxInt64
	}
	return c.began + c.lease - leaseSlack
}
