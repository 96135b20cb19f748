package sim

import (
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// patience is how long a client waits for an answer before it gives the
// question up.
const patience = 1500 * millisecond

// deadline of a call that begins now, in ns.
func (w *world) deadline() int64 { return 1000 * (w.now + patience - w.flaws().impatience) }

// values are records that differ from all others of the world.
func (w *world) values(client string, count int) (values [][]byte, hashes history.Hashes) {
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = w.random.IntN(400)
		if w.chance(20) {
			sizes[i] = w.random.IntN(8000)
		}
	}
	return w.valuesOf(client, sizes)
}

func (w *world) valuesOf(client string, sizes []int) (values [][]byte, hashes history.Hashes) {
	for _, size := range sizes {
		w.counts.Records++
		value := fmt.Appendf(nil, "%s/%d/%0*d", client, w.counts.Records, size, 0)
		values, hashes = append(values, value), append(hashes, history.Hash(nil, value))
	}
	return values, hashes
}

// batch is how a client encodes values.
func (w *world) batch(values [][]byte) *sequence.Append {
	batch := w.encode(values)
	return w.digested(&sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: len(values), Bytes: len(batch),
	})
}

// digested does what nodes do that know the cluster to be at the level of digests; some do not yet.
func (w *world) digested(a *sequence.Append) *sequence.Append {
	if w.digests && w.random.IntN(8) > 0 {
		a.Digested = true
	}
	return a
}

// batches encodes each value as a batch of its own.
func (w *world) batches(values [][]byte) *sequence.Append {
	a := &sequence.Append{ExpectedEnd: sequence.NoExpectation, Records: len(values)}
	for i := range values {
		batch := w.encode(values[i : i+1])
		a.Batches, a.Bytes = append(a.Batches, batch), a.Bytes+len(batch)
	}
	return w.digested(a)
}

func (w *world) encode(values [][]byte) record.Batch {
	var builder record.Builder
	builder.Reset(nil)
	for _, value := range values {
		if err := builder.Add(record.Record{Timestamp: 1, Value: value}); err != nil {
			w.fail("encode a batch: %v", err)
		}
	}
	batch, err := builder.Finish(record.None)
	if err != nil {
		w.fail("encode a batch: %v", err)
	}
	return batch
}

// eventOf is what an answer to a change says to a client.
func eventOf(a sequence.Answer) history.Event {
	if r := a.Refusal; r != nil {
		e := history.Event{Outcome: history.Unknown, Reason: r.Reason.String()}
		switch r.Reason.Outcome() {
		case record.NotDone:
			e.Outcome = history.Failed
		case record.Done:
			e.Outcome, e.Forgotten = history.OK, true
		}
		return e
	}
	e := history.Event{Outcome: history.OK}
	if len(a.More) == 0 {
		if a.First.Count > 0 {
			e.First = new(int64(a.First.First))
		}
		return e
	}
	for _, r := range append([]sequence.Run{a.First}, a.More...) {
		e.Ranges = append(e.Ranges, [2]int64{int64(r.First), int64(r.First) + int64(r.Count)})
	}
	return e
}

// call is a question of a client that goes into the history: it returns once,
// with the answer or, after a while, without.
func (w *world) call(e history.Event, n *node, question func(n *node, reply func(history.Event, func())), lost func()) {
	e.Deadline = w.deadline()
	c := w.recorder.Invoke(e)
	done := false
	w.network.ask(n, func(n *node, reply func(func())) {
		question(n, func(e history.Event, then func()) {
			reply(func() {
				if done {
					return // it was given up
				}
				done = true
				c.Return(e)
				then()
			})
		})
	})
	w.later(patience, func() {
		if !done {
			done = true
			c.Return(history.Event{Outcome: history.Unknown})
			lost()
		}
	})
}

// guess is the node that a client asks next: who was said to lead, or any.
type guess struct{ node uint64 }

func (g *guess) of(w *world) *node {
	if g.node == 0 {
		g.node = 1 + w.random.Uint64N(uint64(len(w.nodes)))
	}
	return w.nodes[g.node-1]
}

// wrong: the node did not answer, or does not lead.
func (g *guess) wrong(r *record.Refusal) {
	g.node = 0
	if r != nil && r.Leader != "" {
		_, _ = fmt.Sscan(r.Leader, &g.node)
	}
}

// name of a client that is new.
func (w *world) name(kind string) string {
	w.names++
	name := fmt.Sprint(kind, w.names)
	w.named = append(w.named, name)
	return name
}
