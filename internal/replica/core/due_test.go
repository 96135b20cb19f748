package core

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// pass lets time pass as a node does: the core is ticked only when something is due. It returns the
// number of ticks.
func (b *bench) pass(millis int64) (ticks int) {
	for end := b.now.Monotonic + millis; b.now.Monotonic < end; {
		b.now.Monotonic += TickMillis
		b.now.Unix += TickMillis
		if b.core.Activity.Due() > b.now.Monotonic {
			continue
		}
		ticks++
		b.core.SetNow(b.now)
		b.core.Tick()
		b.settle()
	}
	return ticks
}

// lookMillis is the interval at which the leader of a log with sessions looks whether memory for them is
// short.
const lookMillis = 5_000

func TestALogThatIsAloneIsTickedOnlyForItsLeases(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.settle()
	require.LessOrEqual(t, b.pass(2*idleMillis), idleMillis/releaseMillis+1, "it releases memory")
	require.Zero(t, b.pass(3_600_000), "it has no session")

	const lease = 600_000
	b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: lease})
	b.settle()
	b.pass(2 * idleMillis)
	require.Equal(t, 100_000/lookMillis, b.pass(100_000))
	require.Equal(t, 1, b.core.Group.storage.table.OpenSessions())
}

func TestASessionOfALogWithoutTicksEndsWhenItsLeaseDoes(t *testing.T) {
	b := newBench(t)
	b.settle()
	const lease = 33_000
	b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: lease})
	b.settle()
	b.pass(lease - 2*TickMillis)
	require.Equal(t, 1, b.core.Group.storage.table.OpenSessions())
	b.pass(2 * TickMillis)
	require.Zero(t, b.core.Group.storage.table.OpenSessions())
}

// Nothing has told the sequencer the time since the last tick.
func TestASignOfLifeInALogWithoutTicksCountsFromWhenItCame(t *testing.T) {
	for name, live := range map[string]func(b *bench){
		"append": func(b *bench) {
			a := values(t, "x")
			a.Session = 7
			answer := b.append(a)
			b.settle()
			require.Nil(t, answer.Refusal)
		},
		"keep-alive": func(b *bench) {
			answered := false
			b.core.Reads.KeepSession(7, func(a sequence.Answer) { answered = a.Refusal == nil })
			b.settle()
			require.True(t, answered)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.settle()
			const lease = 33_000
			b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: lease})
			b.settle()
			b.pass(lease - 4_000) // the last tick was a while ago
			b.core.SetNow(b.now)
			live(b)
			b.settle()
			b.pass(lease - TickMillis)
			require.Equal(t, 1, b.core.Group.storage.table.OpenSessions())
			b.pass(2 * TickMillis)
			require.Zero(t, b.core.Group.storage.table.OpenSessions())
		})
	}
}

func TestNoLeaseRunsOutWhileTheProcessIsPaused(t *testing.T) {
	b := newBench(t)
	b.settle()
	const lease = 33_000
	b.command(record.Command{Kind: record.OpenSession, Session: 7, Lease: lease})
	b.settle()
	b.pass(lease / 2)
	const hour = 3_600_000
	b.now.Monotonic += hour
	b.now.Stalled += hour
	b.pass(lease/2 - TickMillis)
	require.Equal(t, 1, b.core.Group.storage.table.OpenSessions())
	b.pass(2 * TickMillis)
	require.Zero(t, b.core.Group.storage.table.OpenSessions())
}

func TestALeaseOfTheWriterAndOfAHoldEndInALogWithoutTicks(t *testing.T) {
	b := newBench(t)
	b.settle()
	const lease = 33_000
	b.core.SetNow(b.now)
	b.core.Writers.Lease(&WriterRequest{Writer: record.Writer{Name: "w", Lease: lease}, Done: func(a sequence.Answer) { require.Nil(t, a.Refusal) }})
	b.settle()
	hold := b.command(record.Command{Kind: record.SetHold, Lease: lease + 10_000, Text: record.AppendHoldCommand(nil, record.Hold{Name: "h"})})
	b.settle()
	require.Nil(t, hold.Refusal)
	b.pass(lease - 2*TickMillis)
	_, held := b.core.Group.storage.table.Holder()
	require.True(t, held)
	b.pass(2 * TickMillis)
	_, held = b.core.Group.storage.table.Holder()
	require.False(t, held)
	require.Len(t, b.core.Group.storage.table.Holds(), 1)
	b.pass(10_000)
	require.Empty(t, b.core.Group.storage.table.Holds())
}

// pass lets time pass as nodes do: a core is ticked only when something is due. It returns the
// numbers of ticks by replica.
func (c *trio) pass(millis int64) map[uint64]int {
	return c.passOn(millis, slices.Collect(maps.Keys(c.all))...)
}

// passOn lets time pass on some nodes.
func (c *trio) passOn(millis int64, nodes ...uint64) map[uint64]int {
	ticks := map[uint64]int{}
	for end := c.now.Monotonic + millis; c.now.Monotonic < end; {
		c.now.Monotonic += TickMillis
		c.now.Unix += TickMillis
		for _, id := range nodes {
			m := c.all[id]
			if !m.down {
				m.pulse.Beat(c.now.Monotonic)
			}
			if m.down || m.core.Activity.Due() > c.now.Monotonic {
				continue
			}
			ticks[id]++
			m.core.SetNow(c.nowOf(m))
			m.core.Tick()
			c.step(id)
		}
		c.settle()
	}
	return ticks
}

// An open session, or a lease of the writer, makes no difference.
func TestReplicasOfAnIdleLogLeaveOutTheTicksThatOnlyCount(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.command(l, record.Command{Kind: record.OpenSession, Session: 7, Lease: 3_600_000})
	c.settle()
	c.pass((idleAfter + 2*electionTicks) * TickMillis)
	const seconds = 60
	ticks := c.pass(seconds * 1000)
	require.Equal(t, l, c.leader())
	// A heartbeat each second, and a look at the memory for sessions every five.
	require.LessOrEqual(t, ticks[l], seconds+seconds*1000/lookMillis+1)
	require.GreaterOrEqual(t, ticks[l], seconds-1)
	delete(ticks, l)
	require.Empty(t, ticks, "the followers hear from it")
}

// A program waits for as long as another one has the lease, and asks again every ten seconds.
func TestAProgramInLineForTheWriterLeaseCostsNoTicks(t *testing.T) {
	for name, voters := range map[string][]uint64{"three": {1, 2, 3}, "alone": {1}} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t, voters...)
			l := c.leader()
			const lease = 100_000
			require.EqualValues(t, 1, c.leaseFor(lease, l, "holder", "", true).term(t))
			granted := c.now.Monotonic
			next := c.lease(l, "next", "", true)
			c.pass((idleAfter + 2*electionTicks) * TickMillis)
			ticks := 0
			for range 6 {
				ticks += c.pass(10_000)[l]
				again := c.lease(l, "next", "", true)
				require.Len(t, next.answers, 1, "its place is taken by itself")
				next = again
			}
			require.LessOrEqual(t, ticks, 75, "a heartbeat each second, and what confirms the answers")
			require.Equal(t, l, c.leader())
			for next.term(t) == 0 {
				c.pass(TickMillis)
			}
			require.InDelta(t, lease, c.now.Monotonic-granted, 2*TickMillis, "the holder is silent")
		})
	}
}

// Nodes of before Config.Rests leave out no ticks of a log with a session, or a lease of a hold.
func TestFollowersThatLeaveOutNoTicksDoNotReplaceALeaderWithASession(t *testing.T) {
	for name, command := range map[string]record.Command{
		"session": {Kind: record.OpenSession, Session: 7, Lease: 3_600_000},
		"hold":    {Kind: record.SetHold, Lease: 3_600_000, Text: record.AppendHoldCommand(nil, record.Hold{Name: "h"})},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t, 1, 2, 3)
			l := c.leader()
			rests := false
			c.all[l].core.Activity.rests = func() bool { return rests }
			require.Nil(t, c.command(l, command).Refusal)
			c.settle()
			term := c.all[l].core.Group.term
			for range (idleAfter*TickMillis + 15_000) / TickMillis {
				for id, m := range c.all {
					if id != l {
						m.core.tick()
						c.step(id)
					}
				}
				c.passOn(TickMillis, l)
			}
			require.Equal(t, l, c.leader())
			require.Equal(t, term, c.all[l].core.Group.term, "nobody has started an election")

			rests = true
			c.passOn(1000, l)
			require.LessOrEqual(t, c.passOn(10_000, l)[l], 13, "all nodes can do with that")
		})
	}
}

// Something wakes the leader at gaps that are no whole ticks.
func TestTheLeaderOfAnIdleLogSendsAHeartbeatEachSecondWhateverWakesIt(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.pass((idleAfter + 2*electionTicks) * TickMillis)
	heartbeats := 0
	c.loses = func(m *raftpb.Message) bool {
		if m.GetType() == raftpb.MsgHeartbeat && m.GetTo() == l%3+1 {
			heartbeats++
		}
		return false
	}
	for range 60_000 / 900 {
		c.pass(900)
		m := c.all[l]
		m.core.SetNow(c.nowOf(m))
		m.core.Tick()
		c.step(l)
		c.settle()
	}
	require.Equal(t, l, c.leader())
	require.InDelta(t, 60, heartbeats, 2)
}

// It fails without a sign: the connection to its node stays, so nobody wakes the others.
func TestFollowersOfAnIdleLogReplaceALeaderThatIsSilent(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.pass((idleAfter + 2*electionTicks) * TickMillis)
	c.pass(10_000)
	c.all[l].down = true
	c.pass(electionTicks*idleTickMillis - 1000)
	for id, m := range c.all {
		require.Equal(t, l, m.core.Group.leader, "replica %d has not given it up", id)
	}
	c.pass(2*electionTicks*idleTickMillis + 2000)
	led := 0
	for id, m := range c.all {
		if id != l && m.core.Group.role == leaderReady {
			led++
		}
	}
	require.Equal(t, 1, led)
}
