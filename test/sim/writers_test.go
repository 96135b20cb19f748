package sim

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/history"
)

// election is what the programs that want the writer lease have seen of it.
type election struct {
	granted  map[uint64]granted // by term
	released map[uint64][]string
	// alive is a time in us by term: the leader had taken an append with the term by then at the earliest, and
	// acknowledged it.
	alive map[uint64]int64
}

// granted is one grant of the writer lease.
type granted struct {
	name     string
	lease    int64 // ms
	asked    int64 // us: when the leader had the request
	at       int64 // us: when the leader answered
	fromLine bool  // another program had the lease when the leader had the request
}

// changes counts how the writer lease passed from one program to another.
type changes struct{ all, expiries, releases, handovers, acquisitions, fromLine int }

func (c *changes) add(o changes) {
	c.all, c.expiries, c.releases, c.handovers = c.all+o.all, c.expiries+o.expiries, c.releases+o.releases, c.handovers+o.handovers
	c.acquisitions, c.fromLine = c.acquisitions+o.acquisitions, c.fromLine+o.fromLine
}

// changes returns how the lease passed on, and fails if it was taken from a program without a reason: it was not
// released or acquired by force, and its holder was not silent for as long as it lasts. acquired are the terms
// without a lease that were granted.
func (e *election) changes(t *testing.T, seed uint64, acquired []uint64) (c changes) {
	for i, terms := 1, slices.Sorted(maps.Keys(e.granted)); i < len(terms); i++ {
		before, next := e.granted[terms[i-1]], e.granted[terms[i]]
		if before.name == next.name {
			continue
		}
		c.all++
		if next.fromLine {
			c.fromLine++
		}
		to, released := e.released[terms[i-1]]
		switch {
		case terms[i] > terms[i-1]+1:
			// The answer to a grant in between was lost, or it was AcquireWriter.
			if slices.ContainsFunc(acquired, func(term uint64) bool { return terms[i-1] < term && term < terms[i] }) {
				c.acquisitions++
			}
		case slices.Contains(to, next.name):
			c.handovers++
		case released:
			c.releases++
		default:
			c.expiries++
			// A sign of life counts from the tick before it.
			silence := next.at - max(before.asked, e.alive[terms[i-1]])
			require.GreaterOrEqual(t, silence, (before.lease-core.TickMillis)*millisecond,
				"seed %d: %s lost term %d to %s after so many us of silence", seed, before.name, terms[i-1], next.name)
		}
	}
	return c
}

// claimant is a program that wants the writer lease. While it has that it appends; then it releases the
// lease, hands it over, or is silent for longer than it lasts, and goes on with its old term as one that has
// not learned what happened.
type claimant struct {
	*soloist
	election *election
	lease    int64 // ms
	asked    int64 // us: a request is open until then
}

func startClaimant(w *world, e *election) *claimant {
	c := &claimant{soloist: &soloist{world: w, name: w.name("claimant ")}, election: e, lease: int64(w.dice(300, 500, 1000))}
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
		c.append()
	}
	w.later(pause, c.loop)
}

func (c *claimant) append() {
	w, term, taken := c.world, c.term, int64(0)
	values, hashes := w.values(c.name, 1+w.random.IntN(2))
	c.call(history.Event{Verb: history.Append, Hashes: hashes, Writer: term}, func() *core.Request {
		if taken == 0 {
			taken = w.now
		}
		a := w.batch(values)
		a.WriterTerm, a.ExpectedEnd = record.WriterTerm(term), sequence.NoExpectation
		return &core.Request{Append: a}
	}, func(sequence.Answer, *history.Event) { c.election.alive[term] = max(c.election.alive[term], taken) })
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
		grant := granted{name: c.name, lease: c.lease}
		q.Done = func(a sequence.Answer) {
			if a.Refusal == nil && a.WriterTerm > 0 {
				grant.at = w.now
				c.election.granted[uint64(a.WriterTerm)] = grant
			}
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
		n.replica.Do(func(state *core.Core) {
			holder := state.Writers.State().Holder.Name
			grant.asked, grant.fromLine = w.now, holder != "" && holder != c.name
			state.Writers.Lease(q)
		})
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
	c.election.released[c.term] = append(c.election.released[c.term], to)
	w.network.ask(c.guess.of(w), func(n *node, _ func(func())) {
		if n.replica != nil {
			n.replica.Do(func(state *core.Core) { state.Writers.Release(term, to, nil) })
		}
	})
}

// Programs elect a writer by the lease while nodes pause, die and are cut off and clocks jump. Each appends with
// its term for longer than it has the lease. No record of an older term follows one of a newer: that is the
// rule of writer terms, by which every history is judged.
// The lease is not taken from a program without a reason.
func TestAThousandWritersFollowEachOtherInOrder(t *testing.T) {
	var counted changes
	pauses, partitions, jumps := 0, 0, 0
	for seed := uint64(0); counted.all < 1000/sparse; seed++ {
		require.Less(t, seed, uint64(200), "%+v", counted)
		e := &election{granted: map[uint64]granted{}, released: map[uint64][]string{}, alive: map[uint64]int64{}}
		var acquired []uint64
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			for range 3 {
				startClaimant(w, e)
			}
			w.run(w.now + second)
			ending{w}.suffer()
			acquired = slices.DeleteFunc(slices.Clone(w.granted), func(term uint64) bool { return e.granted[term].name != "" })
		})
		require.NoError(t, r.Err(), "seed %d", seed)
		counted.add(e.changes(t, seed, acquired))
		pauses, partitions, jumps = pauses+r.Counts.Pauses, partitions+r.Counts.Partitions, jumps+r.Counts.ClockJumps
	}
	t.Logf("%+v", counted)
	for _, n := range []int{counted.expiries, counted.releases, counted.handovers, counted.acquisitions, counted.fromLine, pauses, partitions, jumps} {
		require.NotZero(t, n, "%+v", counted)
	}
}
