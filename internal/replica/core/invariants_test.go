package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

func TestAReplicaWhoseInvariantsDoNotHoldEndsAndNamesTheOne(t *testing.T) {
	for claim, breakIt := range map[string]func(c *Core){
		"entries up to 9 are durable, the log ends at 2":     func(c *Core) { c.storage.durable = 9 },
		"entries up to 9 are committed":                      func(c *Core) { c.storage.commit = 9 },
		"entries up to 2 are applied, up to 1 are committed": func(c *Core) { c.storage.commit = 1 },
		"3 of 0 proposals have no index":                     func(c *Core) { c.proposals.unplaced = 3 },
	} {
		b := newBench(t)
		b.settle()
		breakIt(b.core)
		out := b.core.Advance()
		require.Empty(t, out.Writes, claim)
		require.Empty(t, out.Messages, claim)
		require.NotNil(t, b.core.Failed(), claim)
		require.Equal(t, record.Corrupt, b.core.Failed().Reason)
		require.Contains(t, b.core.Failed().Detail, claim)
	}
}

func TestAGapInTheOffsetChainIsFound(t *testing.T) {
	b := newBench(t)
	b.settle()
	b.append(values(t, "one"))
	b.settle()
	b.append(values(t, "two"))
	b.settle()
	require.NoError(t, b.core.CheckInvariants())
	e, ok := b.core.storage.tail.At(b.core.storage.last)
	require.True(t, ok)
	e.First++
	b.core.storage.tail.Append([]tail.Entry{e})
	require.ErrorContains(t, b.core.CheckInvariants(), "begins at offset 2, the one before ends at 1")
}
