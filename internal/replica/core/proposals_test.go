package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// What the log has taken is not durable before the core is notified that it is: its
// newest index rises before the sync.
func TestAnEntryIsDurableWhenItsOwnWriteIs(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "a"))
	b.step()
	b.append(values(t, "b"))
	b.step()
	require.Len(t, b.core.proposals.list, 2)
	require.GreaterOrEqual(t, len(b.pending), 2)
	first := b.core.proposals.list[0].index
	for i := range b.pending {
		_, err := b.log.Write([]segment.Write{b.pending[i].Write})
		require.NoError(t, err)
	}
	for len(b.pending[0].Entries) == 0 || b.pending[0].Entries[0].Index != first {
		b.core.Written(b.pending[0], nil)
		b.pending = b.pending[1:]
	}
	require.Less(t, b.core.Group.storage.durable, first)
	b.core.Written(b.pending[0], nil)
	require.Equal(t, first, b.core.Group.storage.durable)
	require.NotZero(t, b.core.proposals.list[0].durable)
	require.Zero(t, b.core.proposals.list[1].durable, "its write has not been reported")
}

// A write that was under way when a new leader's entries replaced what it holds
// makes none of those durable.
func TestAReplacedEntryIsNotDurable(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	leader := c.leader()
	c.settle()
	follower := leader%3 + 1
	m := c.all[follower]
	durable := m.core.Group.storage.durable
	old := Write{Write: segment.Write{Entries: []segment.Entry{{Index: durable + 1, Term: 1}, {Index: durable + 2, Term: 1}}}}
	m.core.storer.madeDurable(&old)
	require.Equal(t, durable, m.core.Group.storage.durable)
}

// Under saturation one bundle has several entries, which are written
// together; the next bundle forms meanwhile.
func TestABundleIsInProgressAsAWhole(t *testing.T) {
	b := newBench(t)
	b.settle()
	large := func() *sequence.Append { return values(t, strings.Repeat("x", 700<<10)) }
	for range 4 {
		b.append(large())
	}
	b.step()
	p := b.core.proposals.progress()
	require.Equal(t, 2, p.bundles)
	require.Len(t, b.core.proposals.list, 4, "two entries in each")
	require.Empty(t, b.core.proposer.queue, "one bundle is synced while the other forms")
	require.InDelta(t, 4*700<<10, p.bytes, 1<<10, "each append is counted once")
	require.InDelta(t, 2*700<<10, p.newest, 1<<10)
	b.settle()
	require.Len(t, b.answers, 4)
	require.Zero(t, b.core.proposals.progress())
}

// While writes hang, the ends of sessions are queued once.
func TestTheEndOfASessionIsQueuedOnce(t *testing.T) {
	b := newBench(t)
	b.settle()
	const sessions = 300
	for id := range record.SessionID(sessions) {
		b.command(record.Command{Kind: record.OpenSession, Session: id + 1, Lease: 1000})
	}
	b.settle()
	b.append(values(t, "a"))
	b.step()
	b.append(values(t, "b"))
	b.step() // both places are taken, and nothing is written
	for range 100 {
		b.now.Monotonic += TickMillis
		b.step()
		b.core.Tick()
	}
	require.NotEmpty(t, b.core.proposer.queue)
	require.LessOrEqual(t, len(b.core.proposer.queue), sessions)
	for range 10 {
		b.settle()
		b.now.Monotonic += TickMillis
		b.core.Tick()
	}
	require.Zero(t, b.core.Group.storage.table.OpenSessions())
	require.Zero(t, b.core.proposer.expiring)
}

// A log that has fallen idle keeps nothing of its last burst, on any replica.
func TestAnIdleLogKeepsNothingOfItsLastBurst(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	leader := c.leader()
	for range 20 {
		c.append(leader, values(t, strings.Repeat("x", 100<<10)))
	}
	c.settle()
	for id, m := range c.all {
		_, kept := inMemory(m.core)
		require.NotZero(t, kept, "replica %d serves readers from memory", id)
	}
	for range idleMillis/TickMillis + 1 {
		c.tick()
		c.settle()
	}
	for id, m := range c.all {
		_, kept := inMemory(m.core)
		require.Zero(t, kept, "replica %d", id)
		require.Nil(t, m.core.proposer.queue)
		require.Nil(t, m.core.proposals.list)
	}
}

// A request may be in several proposals. If Raft takes the first and drops the second,
// the request is neither done nor not done.
func TestARequestOfWhichRaftTookAPartIsNotDecidedAgain(t *testing.T) {
	var answers []Answered
	core := newBench(t).core
	request := func() *Request {
		return &Request{Append: &sequence.Append{}, Done: func(sequence.Answer) {}}
	}
	whole, part, behind := request(), request(), request()
	core.proposer.deferAnswers([]sequence.Answer{
		{First: sequence.Run{First: 10, Count: 2}, RestsOn: 4},
		{First: sequence.Run{First: 12, Count: 5}, RestsOn: 5}, // 12 to 14 are in proposal 4
		{First: sequence.Run{First: 17, Count: 1}, RestsOn: 5},
	}, []*Request{whole, part, behind}, sequence.Proposal{Number: 5, First: 15})
	answers = core.round.out.Answers
	require.Len(t, answers, 2)
	require.Nil(t, answers[0].Answer.Refusal)
	require.Equal(t, record.OutcomeUnknown, answers[1].Answer.Refusal.Reason)
	require.Equal(t, []*Request{behind}, core.proposer.queue)
}

func TestWhatIsInFlightWhenAReplicaEndsMayBeInTheLog(t *testing.T) {
	b := newBench(t)
	b.settle()
	pending := b.append(values(t, "in flight"))
	b.step()
	b.core.Lifecycle.Fail(record.Refuse(record.Corrupt, "an entry cannot be read"))
	b.step()
	require.Equal(t, record.MaybeDone, pending.Refusal.Reason.Outcome())
	later := b.append(values(t, "later"))
	b.step()
	require.Equal(t, record.Corrupt, later.Refusal.Reason)
}

func TestAQuestionWaitsUntilTheLeaderIsReady(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "acknowledged"))
	b.settle()
	// The commit index is written lazily: after a crash it is an old one.
	b.open(segment.HardState{Term: b.log.HardState().Term, Vote: 1, Commit: 1})
	for b.step(); !b.core.Group.Leads(); {
		b.sync()
	}
	require.False(t, b.core.Group.role == leaderReady)
	b.core.Reads.Confirm(func(r *record.Refusal) {
		require.Nil(t, r)
		require.Equal(t, record.Offset(1), b.core.Group.storage.table.End())
		b.answers = nil
	})
	require.NotEmpty(t, b.answers)
	b.settle()
	require.Empty(t, b.answers, "it was answered")
}

func TestNothingBehindAFastForwardIsShownBeforeItIsApplied(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	follower := l%3 + 1
	c.command(l, record.Command{Kind: record.Trim, Offset: 100, Flags: record.FlagFastForward})
	c.append(l, values(t, "behind it"))
	// The follower learns that all has committed before its own disk has it.
	for range 20 {
		for len(c.wires) > 0 {
			c.deliver(0)
		}
		for id := range c.all {
			if id != follower {
				c.sync(id)
			}
		}
		start, end, err := c.all[follower].core.Group.storage.tail.Bounds()
		require.NoError(t, err)
		require.True(t, end <= 100 || start == 100, "readable [%d, %d)", start, end)
		c.now.Monotonic += TickMillis
		c.all[l].core.SetNow(c.nowOf(c.all[l]))
		c.all[l].core.Tick()
		c.step(l)
	}
	require.NotEmpty(t, c.all[follower].pending)
	c.settle()
	c.requireEnd(101)
}
