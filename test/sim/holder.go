package sim

import (
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// holder sets holds, moves and releases them, each under a name of its own, and looks
// whether what they keep is there on all nodes. What it does is not in the history: no rule
// speaks of holds.
type holder struct {
	world *world
	guess guess
	busy  bool
	hold  string // empty: none
	// kept: nothing from here on may go until then, in us; -1: nothing is kept for
	// certain. A move that has no answer may be done or not: what counts is the higher.
	kept, until int64
	lease       uint32
	moved       int64 // where the hold has certainly left; -1: nowhere
	muddled     bool  // a move had no answer, and may yet be done
}

func startHolder(w *world) {
	h := &holder{world: w, kept: -1, moved: -1}
	w.clients = append(w.clients, h)
	h.loop()
}

// waiting: at the end there are no holds left, so that a trim has to succeed.
func (h *holder) waiting() bool { return h.busy || h.world.quiet && h.left() != "" }

// left is a hold that the leader has; "?" where there is none.
func (h *holder) left() string {
	for _, n := range h.world.nodes {
		if n.serves() && n.replica.Status().Leading {
			if holds := n.replica.Status().Holds; len(holds) > 0 {
				return holds[0].Name
			}
			return ""
		}
	}
	return "?"
}

func (h *holder) loop() {
	w := h.world
	h.look()
	switch {
	case h.busy:
	case w.quiet:
		if h.kept = -1; h.left() != "" {
			h.release(h.left())
		}
	case w.resting:
	case h.hold == "":
		h.set()
	case h.kept < 0 || w.chance(8):
		h.release(h.hold)
	case h.moved >= 0 && !h.muddled && w.chance(4):
		h.breakMoved()
	default:
		h.move()
	}
	pause := w.between(20*millisecond, 400*millisecond)
	if w.chance(4) {
		pause = w.between(0, 2*second) // for most of a lease, or too long
	}
	w.later(pause, h.loop)
}

// look fails the run if something is gone that is kept.
func (h *holder) look() {
	if h.kept < 0 || h.world.now > h.until {
		return
	}
	for _, n := range h.world.nodes {
		if !n.serves() || n.replica.Status().Short {
			continue
		}
		if start, _, err := n.replica.Tail().Bounds(); err == nil && int64(start) > h.kept {
			h.world.fail("the log begins at %d on node %d, and hold %q keeps all from %d on", start, n.id, h.hold, h.kept)
		}
		h.world.counts.HoldsSeen++
	}
}

func (h *holder) set() {
	w := h.world
	w.holds++
	h.hold, h.kept, h.moved, h.muddled = fmt.Sprint("hold ", w.holds), -1, -1, false
	h.lease = uint32(w.dice(0, 1000, 3000))
	flags := record.FlagFromEnd
	if w.chance(3) {
		flags = record.FlagFromStart
	}
	h.put(0, flags, func(a *sequence.Answer, began int64) {
		switch {
		case a == nil:
		case a.Refusal == nil:
			h.keep(int64(a.Start), began)
		case a.Refusal.Reason.Outcome() == record.NotDone:
			h.hold = ""
		}
	})
}

// move moves the hold towards the end, or leaves it where it is and renews its lease.
func (h *holder) move() {
	from, to := h.kept, h.kept+h.world.between(0, 30)
	h.kept = to // from now on either counts
	h.put(to, 0, func(a *sequence.Answer, began int64) {
		switch {
		case a == nil, a.Refusal != nil && a.Refusal.Reason.Outcome() != record.NotDone:
			h.muddled = true
		case a.Refusal == nil:
			h.keep(to, began)
			if to > from {
				h.moved = from
			}
		case !h.muddled:
			h.kept = from
		}
	})
}

// keep takes that the hold was set when its lease, if it has one, had begun.
func (h *holder) keep(offset, began int64) {
	h.kept, h.until = offset, began+3600*second
	if h.lease > 0 {
		// The sequencer counts from its last tick.
		h.until = began + int64(h.lease)*millisecond - 3*sequence.TickMs*millisecond
	}
}

// put sets the hold, which readers that come too late get with its pointer.
func (h *holder) put(offset int64, flags uint32, done func(a *sequence.Answer, began int64)) {
	began := h.world.now
	text := record.AppendHold(nil, record.Hold{Name: h.hold, Pointer: []byte("here")})
	h.command(record.Command{Kind: record.SetHold, Offset: record.Offset(offset), Lease: h.lease, Flags: flags, Text: text}, func(a *sequence.Answer) {
		done(a, began)
	})
}

// release ends a hold; the one that the holder has until it is certain that it is gone.
func (h *holder) release(name string) {
	h.kept = -1
	h.command(record.Command{Kind: record.ReleaseHold, Text: []byte(name)}, func(a *sequence.Answer) {
		if a != nil && (a.Refusal == nil || a.Refusal.Reason == record.HoldNotFound) {
			h.hold = ""
		}
	})
}

// breakMoved is what a leader does that has found a hold to keep too much, and comes after
// the hold was moved: it breaks nothing.
func (h *holder) breakMoved() {
	c := record.Command{Kind: record.ReleaseHold, Flags: record.FlagBroken, Offset: record.Offset(h.moved), Text: record.AppendHold(nil, record.Hold{Name: h.hold})}
	h.command(c, func(*sequence.Answer) { h.world.counts.HoldsBroken++ })
}

// command asks a node; done gets nil where no answer comes.
func (h *holder) command(c record.Command, done func(*sequence.Answer)) {
	w := h.world
	h.busy = true
	answered := false
	end := func(a *sequence.Answer) {
		if answered {
			return
		}
		answered, h.busy = true, false
		if a == nil {
			h.guess.wrong(nil)
		} else if a.Refusal != nil && a.Refusal.Reason.Retryable() {
			h.guess.wrong(a.Refusal)
		}
		done(a)
	}
	w.network.ask(h.guess.of(w), func(n *node, reply func(func())) {
		n.take(&core.Request{Command: &c, Done: func(a sequence.Answer) { reply(func() { end(&a) }) }})
	})
	w.later(patience, func() { end(nil) })
}
