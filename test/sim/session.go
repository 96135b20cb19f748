package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// producer appends in a session, with several requests in flight, and sends
// them again in order when one is not answered, or refused for now. When the
// session is gone it settles what it can, and opens another. An implicit one opens
// its session with its first record, as Kafka's producers do.
type producer struct {
	world    *world
	name     string
	guess    guess
	limit    int   // requests in flight
	patience int64 // us until a request without an answer is sent again
	implicit bool

	session uint64 // 0: none
	epoch   uint32
	busy    bool       // waits for something else than the answers to its window
	next    uint64     // sequence
	window  []*request // sent and not known to be in the log, in order
	resend  bool       // soon
	end     int64      // of the log, as far as it is taken into account by checks
	settled []*request // known to be in the log, of this session; the newest
}

// request is some records of a session on their way.
type request struct {
	epoch  uint32
	first  uint64
	values [][]byte
	hashes history.Hashes
	keys   []string       // of the values; none: they have no keys
	check  *history.Check // nil: none
	call   *history.Call  // its attempt; nil: none is open
}

// giveUp ends its attempt without an answer.
func (q *request) giveUp() {
	if q.call != nil {
		q.call.Return(history.Event{Outcome: history.Unknown})
		q.call = nil
	}
}

func startProducer(w *world) {
	p := &producer{world: w}
	w.clients = append(w.clients, p)
	p.reborn()
	p.loop()
}

func (p *producer) waiting() bool { return p.busy || len(p.window) > 0 }

// kafkaInFlight is how many requests a producer of Kafka has in flight.
const kafkaInFlight = 5

// reborn is a new client in the place of one that was killed.
func (p *producer) reborn() {
	w := p.world
	limit := 1 + w.random.IntN(8)
	implicit := w.chance(3)
	if implicit {
		limit = min(limit, kafkaInFlight)
	}
	*p = producer{world: w, name: w.name("producer "), limit: limit, implicit: implicit, patience: int64(w.dice(patience, patience, patience/5, 40*millisecond))}
	p.world.recorder.Note(history.Event{Kind: history.Client, Client: p.name, InFlight: limit + 1})
}

func (p *producer) loop() {
	w := p.world
	idle := p.session != 0 && !p.busy
	switch {
	case w.quiet && len(p.window) == 0:
		return
	case !w.faults.over && !p.busy && w.chance(1500):
		w.recorder.Note(history.Event{Kind: history.Crash, Client: p.name})
		*p = producer{world: w} // answers on their way find nobody
		w.later(w.between(0, second), func() {
			p.reborn()
			p.loop()
		})
		return
	case w.resting:
	case p.session == 0 && !p.busy:
		p.open()
	case idle && len(p.window) == 0 && w.chance(60):
		p.close()
	case idle && w.chance(250):
		p.endEpoch()
	case idle && len(p.settled) > 0 && w.chance(50):
		p.repeat()
	case idle && len(p.window) < p.limit+w.flaws().extra && !w.quiet && !p.resend:
		p.send()
	}
	w.later(w.between(millisecond, 40*millisecond), p.loop)
}

func (p *producer) open() {
	w := p.world
	w.sessions++
	id := w.sessions
	p.settled = nil
	if p.implicit {
		p.session, p.epoch, p.next = id, 0, 0
		return
	}
	p.busy = true
	lease := uint32(w.dice(1000, 5000, 60_000))
	p.command(history.Event{Verb: history.OpenSession, Lease: lease}, record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: lease},
		func(refusal *record.Refusal) {
			p.busy = false
			if refusal == nil {
				p.session, p.epoch, p.next = id, 0, 0
			} else {
				p.guess.wrong(refusal)
			}
		})
}

func (p *producer) send() {
	count := 1 + p.world.random.IntN(3)
	values, hashes := p.world.values(p.name, count)
	q := &request{epoch: p.epoch, first: p.next, values: values, hashes: hashes}
	if p.world.options.Checks && p.world.chance(2) {
		q.keys, q.check = p.world.keys(count), p.world.check(p.end)
	}
	p.next += uint64(count)
	p.window = append(p.window, q)
	p.attempt(q)
}

// attempt sends a request, whether for the first time or again.
func (p *producer) attempt(q *request) {
	w := p.world
	session := p.session
	n := p.guess.of(w)
	e, a := p.append(session, p.window[0].first, q)
	c := w.recorder.Invoke(e)
	q.call = c
	w.network.ask(n, func(n *node, reply func(func())) {
		n.take(&core.Request{Append: a(), Done: func(a sequence.Answer) {
			reply(func() {
				if q.call == c && p.session == session {
					q.call = nil
					c.Return(eventOf(a))
					if a.Duplicate && q.check != nil {
						w.counts.Again++
					}
					p.end = w.countCheck(q.check, a, p.end)
					p.answered(q, a.Refusal)
				}
			})
		}})
	})
	w.later(p.patience, func() {
		if q.call == c && p.session == session {
			q.call = nil
			c.Return(history.Event{Outcome: history.Unknown})
			p.guess.wrong(nil)
			p.again()
		}
	})
}

// append is a request as the history has it, and as a node gets it.
func (p *producer) append(session, low uint64, q *request) (history.Event, func() *sequence.Append) {
	w, implicit := p.world, p.implicit
	if implicit {
		low = 0
	}
	e := history.Event{
		Client: p.name, Verb: history.Append, Log: logName, Hashes: q.hashes, Session: session, Epoch: q.epoch, Sequence: q.first,
		LowWater: low, Implicit: implicit, Deadline: w.deadline(), Keys: q.keys, Check: q.check,
	}
	return e, func() *sequence.Append {
		a := w.encoded(q)
		a.Session, a.Epoch, a.First, a.LowWater = record.SessionID(session), record.Epoch(q.epoch), record.Sequence(q.first), record.Sequence(low)
		a.Implicit = implicit
		return a
	}
}

// encoded is the records of a request, with its check.
func (w *world) encoded(q *request) *sequence.Append {
	if q.keys == nil {
		return w.batch(q.values)
	}
	a := w.keyedBatch(q.values, q.keys)
	w.setCheck(a, q.check)
	return a
}

func (p *producer) answered(q *request, r *record.Refusal) {
	switch {
	case r == nil, r.Reason.Outcome() == record.Done:
		for i := range p.window {
			if p.window[i] == q {
				p.window = append(p.window[:i:i], p.window[i+1:]...)
				p.keep(q)
				break
			}
		}
	case r.Reason == record.SessionExpired, r.Reason == record.SessionNotFound, r.Reason == record.StaleEpoch:
		p.lose()
	case q.check != nil && ofCheck(r):
		p.nextEpoch() // what was sent behind it is refused as well
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
	p.world.later(p.world.between(5*millisecond, 100*millisecond), func() {
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

// keptRequests are more than a log remembers of an implicit session.
const keptRequests = 80

// keep notes a request that is settled.
func (p *producer) keep(q *request) {
	if len(p.settled) == keptRequests {
		p.settled = p.settled[1:]
	}
	p.settled = append(p.settled, q)
}

// repeat sends once more what has been answered, as something between the client and
// the log does that repeats a request late.
func (p *producer) repeat() {
	w := p.world
	q := p.settled[w.random.IntN(len(p.settled))]
	low := p.next
	if len(p.window) > 0 {
		low = p.window[0].first
	}
	if q.epoch == p.epoch {
		low = min(low, q.first)
	} else {
		low = 0
	}
	p.extra(p.session, low, q)
}

// extra sends a request that does not belong to the window.
func (p *producer) extra(session, low uint64, q *request) {
	w := p.world
	p.busy = true
	done := func() { p.busy = false }
	e, a := p.append(session, low, q)
	w.call(e, p.guess.of(w), func(n *node, reply func(history.Event, func())) {
		n.take(&core.Request{Append: a(), Done: func(a sequence.Answer) { reply(eventOf(a), done) }})
	}, done)
}

// close ends the session. What is sent in it afterwards is refused. An implicit
// session has no end; another epoch begins.
func (p *producer) close() {
	if p.implicit {
		p.nextEpoch()
		return
	}
	session, epoch, next := p.session, p.epoch, p.next
	p.session, p.busy = 0, true
	p.command(history.Event{Verb: history.CloseSession, Session: session}, record.Command{Kind: record.CloseSession, Session: record.SessionID(session)},
		func(*record.Refusal) { p.haunt(session, epoch, next) })
}

// haunt appends to a session or epoch that has ended, as a client does that has not
// heard of it.
func (p *producer) haunt(session uint64, epoch uint32, next uint64) {
	values, hashes := p.world.values(p.name, 1)
	p.extra(session, next, &request{epoch: epoch, first: next, values: values, hashes: hashes})
}

// endEpoch gives up what is in the window for good: nothing of it can come any more
// that is not there by then. An implicit session begins the next epoch without a
// word.
func (p *producer) endEpoch() {
	if p.implicit {
		p.nextEpoch()
		return
	}
	w := p.world
	session, epoch, next := p.session, p.epoch, p.next
	p.busy = true
	p.command(history.Event{Verb: history.EndEpoch, Session: session, Epoch: epoch}, record.Command{Kind: record.EndEpoch, Session: record.SessionID(session), Epoch: record.Epoch(epoch)},
		func(refusal *record.Refusal) {
			p.busy = false
			if p.session != session || p.epoch != epoch {
				return
			}
			if refusal != nil {
				p.guess.wrong(refusal) // perhaps it has ended, which the next append finds out
				return
			}
			w.counts.Epochs++
			first := next
			if len(p.window) > 0 {
				first = p.window[0].first
			}
			p.nextEpoch()
			if w.chance(3) {
				p.haunt(session, epoch, next)
			} else {
				p.resolve(session, epoch, first)
			}
		})
}

// nextEpoch continues with new records in the next epoch.
func (p *producer) nextEpoch() {
	p.abandon()
	p.epoch, p.next = p.epoch+1, 0
}

// abandon leaves the window to its fate.
func (p *producer) abandon() {
	for _, q := range p.window {
		q.giveUp()
	}
	p.window, p.resend = nil, false
}

// command runs one; done gets its refusal, if any.
func (p *producer) command(e history.Event, command record.Command, done func(*record.Refusal)) {
	e.Client, e.Log = p.name, logName
	p.world.call(e, p.guess.of(p.world), func(n *node, reply func(history.Event, func())) {
		n.take(&core.Request{Command: &command, Done: func(a sequence.Answer) {
			e := eventOf(a)
			e.First, e.Session = nil, uint64(command.Session)
			reply(e, func() { done(a.Refusal) })
		}})
	}, func() { done(record.Refuse(record.OutcomeUnknown, "no answer")) })
}

// lose gives the session up. What is in the window is settled as far as the log
// still knows.
func (p *producer) lose() {
	w := p.world
	session, epoch, next, first := p.session, p.epoch, p.next, p.next
	if len(p.window) > 0 {
		first = p.window[0].first
	}
	p.abandon()
	switch {
	case p.implicit && w.chance(2):
		p.nextEpoch()
		return
	case p.busy:
	case first < next && w.chance(2):
		p.resolve(session, epoch, first)
	case w.chance(2):
		p.haunt(session, epoch, next)
	}
	p.session = 0
}

func (p *producer) resolve(session uint64, epoch uint32, number uint64) {
	w := p.world
	p.busy = true
	settled := func() { p.busy = false }
	w.call(history.Event{Client: p.name, Verb: history.Resolve, Log: logName, Session: session, Epoch: epoch, Sequence: number, Implicit: p.implicit}, p.guess.of(w),
		func(n *node, reply func(history.Event, func())) {
			if n.replica == nil {
				reply(history.Event{Outcome: history.Failed, Reason: notHere().Reason.String()}, settled)
				return
			}
			n.replica.Do(func(c *core.Core) {
				c.Reads.Resolve(record.SessionID(session), record.Epoch(epoch), record.Sequence(number), func(found core.Resolution, r *record.Refusal) {
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
