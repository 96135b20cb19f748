package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// claimant is a program that wants the writer lease. While it has that it appends; then it releases the
// lease, hands it over, or is silent for longer than it lasts, and goes on with its old term as one that has
// not learned what happened.
type claimant struct {
	*soloist
	lease int64 // ms
	asked int64 // us: a request is open until then
}

func startClaimant(w *world) *claimant {
	c := &claimant{soloist: &soloist{world: w, name: w.name("claimant ")}, lease: int64(w.dice(300, 500, 1000))}
	w.clients = append(w.clients, c)
	c.loop()
	return c
}

func (c *claimant) loop() {
	w := c.world
	if w.quiet {
		return
	}
	pause := w.between(5*millisecond, 60*millisecond)
	switch {
	case c.busy || c.asked > w.now:
	case c.term == 0 || w.chance(3):
		c.claim()
	case w.chance(2):
		c.release()
	default:
		if w.chance(10) {
			pause = w.between(c.lease, 2*c.lease) * millisecond
		}
		c.busy = true
		c.append(c.term, sequence.NoExpectation)
	}
	w.later(pause, c.loop)
}

// claim waits for the lease. A grant goes into the history as that of a writer term does; of a wait in
// vain nothing is known.
func (c *claimant) claim() {
	w := c.world
	c.asked = w.now + patience
	answered := false
	call := w.recorder.Invoke(history.Event{Client: c.name, Log: logName, Verb: history.Writer, Deadline: w.deadline()})
	w.network.ask(c.guess.of(w), func(n *node, reply func(func())) {
		if n.replica == nil {
			reply(func() { c.guess.wrong(nil) })
			return
		}
		q := &core.WriterRequest{Writer: record.Writer{Name: c.name, Lease: uint32(c.lease)}, Wait: true}
		q.Done = func(a sequence.Answer) {
			reply(func() {
				if answered {
					return // it was given up
				}
				answered, c.asked = true, 0
				switch {
				case a.Refusal != nil:
					c.guess.wrong(a.Refusal)
					call.Return(eventOf(a))
				case a.WriterTerm == 0:
					call.Return(history.Event{Outcome: history.Unknown})
				default:
					c.term = uint64(a.WriterTerm)
					w.granted = append(w.granted, c.term)
					call.Return(history.Event{Outcome: history.OK, Writer: c.term, End: new(int64(a.End))})
				}
			})
		}
		n.replica.Do(func(state *core.Core) { state.Writers.Lease(q) })
	})
	w.later(patience, func() {
		if !answered {
			answered = true
			c.guess.wrong(nil)
			call.Return(history.Event{Outcome: history.Unknown})
		}
	})
}

// release ends the lease, or hands it to another one if that waits.
func (c *claimant) release() {
	w := c.world
	to := ""
	if w.chance(3) {
		to = w.named[w.random.IntN(len(w.named))]
	}
	term := record.WriterTerm(c.term)
	w.network.ask(c.guess.of(w), func(n *node, _ func(func())) {
		if n.replica != nil {
			n.replica.Do(func(state *core.Core) { state.Writers.Release(term, to, nil) })
		}
	})
}

// Programs elect a writer by the lease while nodes pause, die and are cut off and clocks jump. Each appends with
// its term for longer than it has the lease. No record of an older term follows one of a newer: that is the
// rule of writer terms, by which every history is judged.
func TestAThousandWritersFollowEachOtherInOrder(t *testing.T) {
	changes, pauses, partitions, jumps := 0, 0, 0, 0
	for seed := uint64(0); changes < 1000/sparse; seed++ {
		require.Less(t, seed, uint64(200), "%d changes", changes)
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			for range 3 {
				startClaimant(w)
			}
			w.run(w.now + second)
			ending{w}.suffer()
			changes += len(w.granted)
		})
		require.NoError(t, r.Err(), "seed %d", seed)
		pauses, partitions, jumps = pauses+r.Counts.Pauses, partitions+r.Counts.Partitions, jumps+r.Counts.ClockJumps
	}
	require.NotZero(t, pauses)
	require.NotZero(t, partitions)
	require.NotZero(t, jumps)
}
