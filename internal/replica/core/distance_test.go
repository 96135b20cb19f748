package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// distantTrio is a trio whose messages take some ticks, one way.
type distantTrio struct {
	*trio
	late  int
	ticks int
	onWay []distantWire
}

type distantWire struct {
	due int
	wire
}

// newDistantTrio has links of so many ticks and replicas with a stretch, and a leader.
func newDistantTrio(t *testing.T, late, stretch int) *distantTrio {
	f := &distantTrio{trio: newTrio(t, 1, 2, 3)}
	f.leader() // at no distance
	for _, m := range f.all {
		m.core.Distance.SetStretch(stretch)
	}
	f.late = late
	return f
}

func (f *distantTrio) tick() {
	f.ticks++
	f.now.Monotonic += TickMillis
	f.now.Unix += TickMillis
	for id, m := range f.all {
		if !m.down {
			m.core.SetNow(f.now)
			m.core.Tick()
			f.step(id)
		}
	}
	for again := true; again; {
		for _, w := range f.wires {
			f.onWay = append(f.onWay, distantWire{f.ticks + f.late, w})
		}
		f.wires = nil
		again = false
		for len(f.onWay) > 0 && f.onWay[0].due <= f.ticks {
			f.wires = append([]wire{f.onWay[0].wire}, f.wires...)
			f.onWay = f.onWay[1:]
			f.deliver(0)
			again = true
		}
		for id, m := range f.all {
			if !m.down && len(m.pending) > 0 {
				f.sync(id)
				again = true
			}
		}
	}
}

func (f *distantTrio) theLeader() uint64 {
	for id, m := range f.all {
		if !m.down && m.core.Group.role == leaderReady {
			return id
		}
	}
	return 0
}

// A follower asks again when it was not answered within an election timeout. At 150 ms each way the answer
// takes longer than the shortest, so that it would never come.
func TestAQuestionOverALongLinkIsAnswered(t *testing.T) {
	for stretch, want := range map[int]bool{1: false, 3: true} {
		f := newDistantTrio(t, 3, stretch)
		follower := f.theLeader()%3 + 1
		answered := false
		f.all[follower].core.Reads.Confirm(func(r *record.Refusal) { answered = r == nil })
		for range 40 {
			f.tick()
		}
		require.Equal(t, want, answered, "stretch %d", stretch)
	}
}

// With messages of 400 ms each way, whose answers are lost now and then, a leader stays; and another comes when it is gone.
func TestALeaderStaysOverLongLinks(t *testing.T) {
	f := newDistantTrio(t, 8, 8)
	leader, term := f.theLeader(), f.all[1].core.Group.term
	for range 300 {
		f.tick()
	}
	require.Equal(t, leader, f.theLeader())
	require.Equal(t, term, f.all[1].core.Group.term)
	f.all[leader].down = true
	// Two that ask for votes at the same time both ask in vain, and wait for a random time.
	for n := 0; f.theLeader() == 0; n++ {
		require.Less(t, n, 8*100*electionTicks)
		f.tick()
	}
	require.NotEqual(t, leader, f.theLeader())
}

// Nothing else is slower: neither leases nor what a local log does.
func TestAStretchIsForWhatWaitsForOthers(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.all[l].core.Distance.SetStretch(0)
	require.Equal(t, 1, c.all[l].core.Distance.stretch)
	ticks := c.all[l].core.Group.quietTicks
	c.all[l].core.Distance.SetStretch(4)
	for range 4 {
		c.tick()
	}
	require.GreaterOrEqual(t, c.all[l].core.Group.quietTicks, ticks+4)
	require.Zero(t, c.all[l].core.Distance.ticks)
}
