package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const milli = int64(1_000_000)

// slowDisk is a bench whose newest write took 2 ms.
func slowDisk(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.settle()
	b.now.Nano = 1000 * milli
	for range 2 {
		b.append(values(t, "first"))
		b.step()
		b.now.Nano += 2 * milli
		b.settle()
	}
	require.True(t, b.core.proposals.gather.together())
	return b
}

func (b *bench) appendSome(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		b.append(values(t, fmt.Sprint(i)))
	}
	b.step()
}

// Of four callers two wait for the sync of the two others. Once that is done, the next
// write takes all four, and so does every one after it.
func TestCallersOfASlowDiskShareOneSync(t *testing.T) {
	b := slowDisk(t)
	b.appendSome(t, 2)
	b.appendSome(t, 2)
	require.Equal(t, 1, b.core.proposals.progress().bundles, "nothing is proposed beside a write")
	for range 3 {
		b.now.Nano += 2 * milli
		b.settle()
		waiting := len(b.core.proposer.queue)
		require.Zero(t, b.core.proposals.progress().bundles, "the callers that were answered are awaited")
		b.appendSome(t, 4-waiting-1)
		require.Zero(t, b.core.proposals.progress().bundles)
		require.NotZero(t, b.core.proposals.gather.until)
		b.appendSome(t, 1)
		require.Equal(t, 1, b.core.proposals.progress().bundles)
		require.Empty(t, b.core.proposer.queue)
	}
}

// The wait ends after a sync, and where callers do not return, waits become rare.
func TestCallersThatDoNotReturnHoldNobodyUpForLong(t *testing.T) {
	g := gather{sync: 2 * milli}
	now, waits := milli, 0
	for range 600 {
		g.answered, g.news = 10, true
		g.begin(4, true, now)
		if g.target != 0 {
			waits++
			require.Equal(t, now+2*milli, g.until)
			require.False(t, g.over(8, false, g.until-1))
			require.True(t, g.over(8, false, g.until), "so it is over, with 4 of 10")
		}
		require.True(t, g.over(4, false, now))
	}
	require.Greater(t, waits, 5)
	require.Less(t, waits, 20)

	for g.target == 0 {
		g.answered, g.news = 10, true
		g.begin(4, true, now)
	}
	require.True(t, g.over(14, false, now), "all have returned")
	g.answered, g.news = 10, true
	g.begin(4, true, now)
	require.NotZero(t, g.target, "so the next are awaited again")
	require.True(t, g.over(5, true, now), "what fills an entry waits for nobody")
	require.Zero(t, g.target)
}

// A disk that hung once is no reason to wait for long.
func TestAWaitForCallersIsBoundedWhateverTheDiskDid(t *testing.T) {
	var g gather
	for _, hung := range []int64{5_000 * milli, 3 * milli} {
		g.measure(1, g.durable+hung)
		g.answered, g.news = 10, true
		g.begin(4, true, 7)
		require.NotZero(t, g.target)
		require.LessOrEqual(t, g.until-7, 20*milli)
		g.target = 0
	}
}

// A leader that waits says until when, and then proposes what there is.
func TestAWaitForCallersEndsByItself(t *testing.T) {
	b := slowDisk(t)
	b.appendSome(t, 5)
	b.now.Nano += 2 * milli
	b.settle()
	b.appendSome(t, 1)
	require.Zero(t, b.core.proposals.progress().bundles)
	require.Equal(t, b.core.proposals.gather.until, b.core.given.Again)
	b.now.Nano = b.core.given.Again
	b.step()
	require.Equal(t, 1, b.core.proposals.progress().bundles)
	require.Zero(t, b.core.given.Again)
}

// On a fast disk everything that may be is proposed at once.
func TestAFastDiskWaitsForNobody(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.now.Nano = 1000 * milli
	for range 10 {
		b.appendSome(t, 2)
		require.Equal(t, 1, b.core.proposals.progress().bundles)
		b.appendSome(t, 2)
		require.Equal(t, 2, b.core.proposals.progress().bundles)
		b.now.Nano += milli / 10
		b.settle()
	}
}
