package sim

import (
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// client is somebody who uses the log, and does not stop before everything that
// was begun has ended.
type client interface {
	// waiting reports whether something has no answer yet.
	waiting() bool
}

// ending is how a world ends: it has to recover, and to return all that it has.
type ending struct{ *world }

// finish waits until all clients have their answers, and then has each kind of
// change done once more: a healed log that is read and takes no appends is not
// healed.
func (w ending) finish() {
	if w.memory {
		w.holders() // it may begin anew until then, which no client lives through
	}
	w.within(settleTime, "a client has no answer yet", func() bool {
		for _, c := range w.clients {
			if c.waiting() {
				return false
			}
		}
		return true
	})
	s := &soloist{world: w.world, name: w.name("last soloist ")}
	w.insist("an append", s, func() { s.append(0, sequence.NoExpectation) })
	w.insist("an append that names the end", s, func() { s.append(0, record.Offset(s.end)) })
	w.insist("the grant of a writer term", s, s.acquire)
	w.insist("an append with the writer term", s, func() { s.append(s.term, sequence.NoExpectation) })
	w.insist("a trim", s, func() { s.trim(max(s.end-20, 1)) })
	w.sessions++
	id := w.sessions
	w.insist("a session", s, func() {
		s.command(history.Event{Verb: history.OpenSession, Lease: lastLease},
			record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: lastLease},
			func(_ sequence.Answer, e *history.Event) { e.Session = id })
	})
	w.insist("an append in a session", s, func() { s.appendIn(id) })
}

// lastLease is longer than a world lasts, in ms.
const lastLease = 600_000

// insist has a call of s made again and again until it succeeds.
func (w ending) insist(what string, s *soloist, do func()) {
	s.succeeded = false
	w.within(settleTime, what+" does not succeed", func() bool {
		if !s.busy && !s.succeeded {
			s.busy = true
			do()
		}
		return s.succeeded && !s.busy
	})
}

// within runs the world until something holds, or fails it at the limit.
func (w *world) within(limit int64, otherwise string, holds func() bool) {
	for deadline := w.now + limit; w.problem == nil && !holds(); w.run(w.now + 50*millisecond) {
		if w.now > deadline {
			w.fail("healed for %s, and %s", time.Duration(limit)*time.Microsecond, otherwise)
		}
	}
}

// appendIn appends the first record of a session, until it is known to be there.
func (s *soloist) appendIn(session uint64) {
	w := s.world
	if s.last.hashes == nil {
		s.last.values, s.last.hashes = w.values(s.name, 1)
	}
	s.call(history.Event{Verb: history.Append, Hashes: s.last.hashes, Session: session}, func() *core.Request {
		a := w.batch(s.last.values)
		a.Session = record.SessionID(session)
		return &core.Request{Append: a}
	}, func(sequence.Answer, *history.Event) {})
}
