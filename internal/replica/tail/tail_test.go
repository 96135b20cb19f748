package tail

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

func TestEntriesThatTruncateOnesWhichLeftMemoryReplaceTheWholeTail(t *testing.T) {
	tail := New(budget.NewShares(1<<20), 0, 0)
	entry := func(index, term uint64) Entry {
		return Entry{Entry: &raftpb.Entry{Index: new(index), Term: new(term), Data: []byte{1}}}
	}
	tail.Append([]Entry{entry(10, 2), entry(11, 2)})
	tail.Append([]Entry{entry(7, 3)})
	_, there := tail.At(10)
	require.False(t, there)
	got, there := tail.At(7)
	require.True(t, there)
	require.Equal(t, uint64(3), got.GetTerm())
	require.Equal(t, 1, tail.bytes)
}
