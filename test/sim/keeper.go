package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// keeper has a session in which it says little: it keeps it alive, mostly within
// its lease, and appends now and then.
type keeper struct {
	*producer
	lease   uint32 // ms
	session uint64
	next    uint64
}

func startKeeper(w *world) {
	k := &keeper{producer: &producer{world: w, name: w.name("keeper ")}}
	w.clients = append(w.clients, k)
	k.loop()
}

func (k *keeper) loop() {
	w := k.world
	if w.quiet {
		return
	}
	switch {
	case k.busy || w.resting:
	case k.session == 0:
		k.open()
	case w.chance(3):
		k.append()
	default:
		k.keep()
	}
	// Seldom too late.
	w.later(w.between(100*millisecond, 1200*millisecond), k.loop)
}

func (k *keeper) open() {
	w := k.world
	w.sessions++
	id := w.sessions
	k.lease = uint32(w.dice(1000, 1500, 3000))
	k.busy = true
	k.command(history.Event{Verb: history.OpenSession, Lease: k.lease}, record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: k.lease},
		func(refusal *record.Refusal) {
			if k.busy = false; refusal == nil {
				k.session, k.next = id, 0
			} else {
				k.guess.wrong(refusal)
			}
		})
}

func (k *keeper) keep() {
	w, session := k.world, k.session
	k.busy = true
	w.call(history.Event{Client: k.name, Verb: history.KeepSession, Log: logName, Session: session}, k.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			answer := func(a sequence.Answer) { reply(eventOf(a), func() { k.answered(a.Refusal) }) }
			if n.replica == nil {
				answer(sequence.Answer{Refusal: notHere()})
				return
			}
			n.replica.Do(func(c *core.Core) { c.Reads.KeepSession(record.SessionID(session), answer) })
		}, k.lost)
}

// append sends one record; what has no answer is sent again by the next.
func (k *keeper) append() {
	w := k.world
	values, hashes := w.values(k.name, 1)
	q := &request{first: k.next, values: values, hashes: hashes}
	if len(k.window) > 0 {
		q = k.window[0]
	}
	k.window = []*request{q}
	k.busy = true
	e, a := k.producer.append(k.session, q.first, q)
	w.call(e, k.guess.of(w), func(n *node, reply func(history.Event, func())) {
		n.take(&core.Request{Append: a(), Done: func(a sequence.Answer) {
			reply(eventOf(a), func() {
				if a.Refusal == nil {
					k.window, k.next = nil, q.first+1
				}
				k.answered(a.Refusal)
			})
		}})
	}, k.lost)
}

func (k *keeper) lost() {
	k.busy = false
	k.guess.wrong(nil)
}

func (k *keeper) answered(r *record.Refusal) {
	k.busy = false
	switch {
	case r == nil:
		k.world.counts.Kept++
	case r.Reason == record.SessionExpired, r.Reason == record.SessionNotFound:
		k.session, k.window = 0, nil
	default:
		k.guess.wrong(r)
	}
}

func (k *keeper) waiting() bool { return k.busy }
