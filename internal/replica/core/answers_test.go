package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

func TestWhatIsInFlightWhenAReplicaEndsMayBeInTheLog(t *testing.T) {
	b := newBench(t)
	b.settle()
	pending := b.append(values(t, "in flight"))
	b.step()
	b.core.Fail(record.Refuse(record.Corrupt, "an entry cannot be read"))
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
	for b.step(); !b.core.Leads(); {
		b.sync()
	}
	require.False(t, b.core.role == leaderReady)
	b.core.Confirm(func(r *record.Refusal) {
		require.Nil(t, r)
		require.Equal(t, record.Offset(1), b.core.storage.table.End())
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
	// The follower hears that all has committed before its own disk has it.
	for range 20 {
		for len(c.wires) > 0 {
			c.deliver(0)
		}
		for id := range c.all {
			if id != follower {
				c.sync(id)
			}
		}
		start, end, err := c.all[follower].core.storage.tail.Bounds()
		require.NoError(t, err)
		require.True(t, end <= 100 || start == 100, "readable [%d, %d)", start, end)
		c.now.Monotonic += TickMillis
		c.all[l].core.SetNow(c.now)
		c.all[l].core.Tick()
		c.step(l)
	}
	require.NotEmpty(t, c.all[follower].pending)
	c.settle()
	c.requireEnd(101)
}
