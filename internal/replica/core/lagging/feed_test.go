package lagging

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// A node that comes back to a thousand logs has each of their leaders read for it.
func TestWhatLogsReadForFollowersStaysWithinTheMemory(t *testing.T) {
	const size = 128 << 20
	memory := budget.NewShares(size)
	read := func(w Wanted) (entries []*raftpb.Entry) {
		for bytes := 0; bytes < w.Bytes; bytes += 1 << 10 {
			entries = append(entries, &raftpb.Entry{Index: new(w.Lo + uint64(len(entries))), Data: make([]byte, 1<<10)})
		}
		return entries
	}
	feeds := make([]Feed, 1000)
	next := make([]uint64, len(feeds))
	most := int64(0)
	for range 20 {
		for i := range feeds {
			f := &feeds[i]
			f.Memory, f.Limits = memory, DefaultLimits()
			if entries, ok := f.Take(next[i]+1, 1<<40, 64<<10); ok {
				next[i] = entries[len(entries)-1].GetIndex()
			}
			for _, w := range f.Wanted {
				f.Add(w.Lo, read(w))
			}
			f.Wanted = f.Wanted[:0]
			most = max(most, memory.Used())
		}
	}
	require.Less(t, most, int64(size+2*leastFeed*len(feeds)), "each log reads a little at least, and a little ahead")
	for i := range feeds {
		require.Positive(t, next[i], "log %d gets on", i)
		feeds[i].Clear()
		feeds[i].Release()
	}
	require.Zero(t, memory.Used())
}

func TestARangeThatIsNeededTakesThePlaceOfOthersWhereMemoryIsShort(t *testing.T) {
	memory := budget.NewShares(1 << 20)
	memory.Changed(0, 1<<20)
	f := Feed{Memory: memory, Limits: DefaultLimits()}
	_, ok := f.Take(1, 100, 1<<20)
	require.False(t, ok)
	require.Len(t, f.Wanted, 1)
	require.Less(t, f.Wanted[0].Bytes, FeedBytes)
	f.Add(1, []*raftpb.Entry{{Index: new(uint64(1)), Data: make([]byte, 600<<10)}})
	_, ok = f.Take(50, 100, 1<<20)
	require.False(t, ok)
	require.EqualValues(t, 50, f.Wanted[1].Lo)
	_, ok = f.Term(1)
	require.False(t, ok, "it has made room")
}
