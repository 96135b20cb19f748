package sim

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/test/history"
)

// reader reads the log again and again, from any node, fresh or not.
type reader struct {
	world *world
	name  string
	next  int64
	busy  bool
}

func startReader(w *world) {
	r := &reader{world: w, name: w.name("reader ")}
	r.loop()
}

func (r *reader) loop() {
	w := r.world
	if w.quiet {
		return
	}
	if !r.busy && !w.resting {
		from := r.next
		if w.chance(5) {
			from = w.random.Int64N(r.next + 1)
		}
		consistency := history.Linearizable
		if w.chance(3) {
			consistency = history.Any
		}
		r.busy = true
		r.read(w.nodes[w.random.IntN(len(w.nodes))], from, 1+w.random.IntN(200), consistency, func(*record.Refusal) { r.busy = false })
	}
	w.later(w.between(5*millisecond, 100*millisecond), r.loop)
}

// read asks a node for records; done is called however it ends, with nil if it
// was answered.
func (r *reader) read(n *node, from int64, limit int, consistency history.Consistency, done func(*record.Refusal)) {
	w := r.world
	c := w.recorder.Invoke(history.Event{
		Client: r.name, Verb: history.Read, Log: logName, Node: n.name(), From: &from, Consistency: consistency, Deadline: w.deadline(),
	})
	over := false
	end := func(e history.Event, refusal *record.Refusal) {
		if !over {
			over = true
			c.Return(e)
			done(refusal)
		}
	}
	w.network.ask(n, func(n *node, reply func(func())) {
		answer := func(refusal *record.Refusal) {
			var s shown
			if refusal == nil {
				s, refusal = n.show(from, limit)
			}
			reply(func() {
				switch {
				case over:
				case refusal == nil:
					if at, _ := n.placed().On(n.id); at.Reader {
						w.counts.ReadersRead++
					}
					c.Frame(s.frame())
					r.next = max(r.next, from+int64(len(s.values)))
					end(history.Event{Outcome: history.OK}, nil)
				case refusal.Reason == record.OffsetTrimmed:
					r.next = max(r.next, int64(refusal.Start))
					end(history.Event{Outcome: history.Failed, Reason: refusal.Reason.String(), Start: new(int64(refusal.Start))}, refusal)
				default:
					end(history.Event{Outcome: history.Failed, Reason: refusal.Reason.String()}, refusal)
				}
			})
		}
		if n.replica == nil {
			answer(notHere())
			return
		}
		if consistency == history.Any {
			answer(nil)
			return
		}
		life, era, outdated := n.life, w.era, n.outdated()
		n.replica.Do(func(core *core.Core) {
			core.Reads.Confirm(func(refusal *record.Refusal) {
				if refusal == nil && outdated && w.era == era {
					w.fail("replica %d has confirmed a read of a log that was lost", n.replicaID)
				}
				if n.life == life {
					answer(refusal)
				}
			})
		})
	})
	w.later(patience, func() {
		end(history.Event{Outcome: history.Failed}, record.Refuse(record.OutcomeUnknown, "no answer"))
	})
}

func (s *shown) frame() history.Event {
	var hashes history.Hashes
	for _, value := range s.values {
		hashes = append(hashes, history.Hash(nil, value))
	}
	return history.Event{First: &s.first, Start: &s.start, End: &s.end, Hashes: hashes}
}
