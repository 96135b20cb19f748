package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/testkit/history"
)

// producer appends in a session, with several requests in flight, and sends
// them again in order when one is not answered, or refused for now. When the
// session is gone it settles what it can, and opens another.
type producer struct {
	world *world
	name  string
	guess guess
	limit int // requests in flight

	session uint64     // 0: none
	busy    bool       // opens a session, or resolves
	next    uint64     // sequence
	window  []*request // sent and not known to be in the log, in order
	resend  bool       // soon
}

// request is some records of a session on their way.
type request struct {
	first  uint64
	values [][]byte
	hashes history.Hashes
	call   *history.Call // its attempt; nil: none is open
}

func (w *world) startProducer() {
	p := &producer{world: w}
	p.reborn()
	p.loop()
}

// reborn is a new client in the place of one that was killed.
func (p *producer) reborn() {
	limit := 1 + p.world.random.IntN(8)
	*p = producer{world: p.world, name: p.world.name("producer "), limit: limit}
	p.world.told.Note(history.Event{Kind: history.Client, Client: p.name, InFlight: limit})
}

func (p *producer) loop() {
	w := p.world
	switch {
	case w.quiet && len(p.window) == 0:
		return
	case !w.faults.over && !p.busy && w.chance(1500):
		w.told.Note(history.Event{Kind: history.Crash, Client: p.name})
		*p = producer{world: w} // answers on their way find nobody
		w.after(w.between(0, second), func() {
			q := &producer{world: w}
			q.reborn()
			q.loop()
		})
		return
	case p.session == 0 && !p.busy:
		p.open()
	case p.session != 0 && !p.busy && len(p.window) == 0 && w.chance(60):
		p.close()
	case p.session != 0 && len(p.window) < p.limit+w.flaws().extra && !w.quiet && !p.resend:
		p.send()
	}
	w.after(w.between(millisecond, 40*millisecond), p.loop)
}

func (p *producer) open() {
	w := p.world
	w.sessions++
	id := w.sessions
	p.busy = true
	lease := uint32(w.dice(1000, 5000, 60_000))
	p.command(history.Event{Verb: history.OpenSession}, record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: lease},
		func(refusal *record.Refusal) {
			p.busy = false
			if refusal == nil {
				p.session, p.next = id, 0
			} else {
				p.guess.wrong(refusal)
			}
		})
}

func (p *producer) send() {
	count := 1 + p.world.random.IntN(3)
	values, hashes := p.world.values(p.name, count)
	q := &request{first: p.next, values: values, hashes: hashes}
	p.next += uint64(count)
	p.window = append(p.window, q)
	p.attempt(q)
}

// attempt sends a request, whether for the first time or again.
func (p *producer) attempt(q *request) {
	w := p.world
	session, low := p.session, p.window[0].first
	n := p.guess.of(w)
	c := w.told.Invoke(history.Event{
		Client: p.name, Verb: history.Append, Log: logName, Hashes: q.hashes, Session: session, Sequence: q.first, Deadline: w.deadline(),
	})
	q.call = c
	w.ask(n, func(n *node, reply func(func())) {
		a := w.batch(q.values)
		a.Session, a.First, a.LowWater = record.SessionID(session), record.Sequence(q.first), record.Sequence(low)
		n.take(&replica.Request{Append: a, Done: func(a sequence.Answer) {
			reply(func() {
				if q.call == c && p.session == session {
					q.call = nil
					c.Return(told(a))
					p.answered(q, a.Refusal)
				}
			})
		}})
	})
	w.after(patience, func() {
		if q.call == c && p.session == session {
			q.call = nil
			c.Return(history.Event{Outcome: history.Unknown})
			p.guess.wrong(nil)
			p.again()
		}
	})
}

func (p *producer) answered(q *request, r *record.Refusal) {
	switch {
	case r == nil, r.Reason.Outcome() == record.Done:
		for i := range p.window {
			if p.window[i] == q {
				p.window = append(p.window[:i:i], p.window[i+1:]...)
				break
			}
		}
	case r.Reason == record.SessionExpired, r.Reason == record.SessionNotFound, r.Reason == record.StaleEpoch:
		p.lose()
	default:
		p.guess.wrong(r)
		p.again()
	}
}

// again sends the whole window once more, in order, after a pause.
func (p *producer) again() {
	if p.resend {
		return
	}
	p.resend = true
	session := p.session
	p.world.after(p.world.between(5*millisecond, 100*millisecond), func() {
		if p.session != session || session == 0 {
			return
		}
		p.resend = false
		for _, q := range p.window {
			if q.call == nil {
				p.attempt(q)
			}
		}
	})
}

// close ends the session. What is sent in it afterwards is refused.
func (p *producer) close() {
	session, next := p.session, p.next
	p.session, p.busy = 0, true
	p.command(history.Event{Verb: history.CloseSession, Session: session}, record.Command{Kind: record.CloseSession, Session: record.SessionID(session)},
		func(*record.Refusal) { p.haunt(session, next) })
}

// haunt appends to a session that has ended, as a client does that has not heard
// of it.
func (p *producer) haunt(session, next uint64) {
	w := p.world
	values, hashes := w.values(p.name, 1)
	p.busy = true
	settled := func() { p.busy = false }
	w.call(history.Event{Client: p.name, Verb: history.Append, Log: logName, Hashes: hashes, Session: session, Sequence: next}, p.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			a := w.batch(values)
			a.Session, a.First = record.SessionID(session), record.Sequence(next)
			n.take(&replica.Request{Append: a, Done: func(a sequence.Answer) { reply(told(a), settled) }})
		}, settled)
}

// command runs one; done gets its refusal, if any.
func (p *producer) command(e history.Event, command record.Command, done func(*record.Refusal)) {
	e.Client, e.Log = p.name, logName
	lost := record.Refuse(record.OutcomeUnknown, "no answer")
	p.world.call(e, p.guess.of(p.world), func(n *node, reply func(history.Event, func())) {
		n.take(&replica.Request{Command: &command, Done: func(a sequence.Answer) {
			e := told(a)
			e.First, e.Session = nil, uint64(command.Session)
			reply(e, func() { done(a.Refusal) })
		}})
	}, func() { done(lost) })
}

// lose gives the session up. What is in the window is settled as far as the log
// still knows.
func (p *producer) lose() {
	w := p.world
	for _, q := range p.window {
		if q.call != nil {
			q.call.Return(history.Event{Outcome: history.Unknown})
			q.call = nil
		}
	}
	switch {
	case p.busy:
	case len(p.window) > 0 && w.chance(2):
		p.resolve(p.session, p.window[0].first)
	case w.chance(2):
		p.haunt(p.session, p.next)
	}
	p.session, p.window, p.resend = 0, nil, false
}

func (p *producer) resolve(session, number uint64) {
	w := p.world
	p.busy = true
	settled := func() { p.busy = false }
	w.call(history.Event{Client: p.name, Verb: history.Resolve, Log: logName, Session: session, Sequence: number}, p.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			if n.replica == nil {
				reply(history.Event{Outcome: history.Failed, Reason: notHere().Reason.String()}, settled)
				return
			}
			n.replica.Do(func(c *replica.Core) {
				c.Resolve(record.SessionID(session), 0, record.Sequence(number), func(found replica.Resolution, r *record.Refusal) {
					if r != nil {
						reply(history.Event{Outcome: history.Failed, Reason: r.Reason.String()}, settled)
						return
					}
					e := history.Event{Outcome: history.OK, State: states[found.State]}
					if found.State == sequence.Committed {
						e.First = new(int64(found.Offset))
					}
					reply(e, settled)
				})
			})
		}, settled)
}

var states = map[sequence.State]history.State{
	sequence.Committed: history.Committed, sequence.Pending: history.Pending, sequence.NotNow: history.NotNow,
	sequence.Never: history.Never, sequence.Forgotten: history.Gone,
}
