package tail

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
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

// countingWaiter is ready when nothing is missing.
type countingWaiter struct{ missing int }

func (w *countingWaiter) Readable(bytes int) { w.missing -= bytes }
func (w *countingWaiter) End()               { w.missing = 0 }

func TestAWaiterCountsWhatBecomesReadableAndNothingElse(t *testing.T) {
	tail := New(budget.NewShares(1<<20), 0, 0)
	entry := func(index uint64, size int) Entry {
		return Entry{
			Entry: &raftpb.Entry{Index: new(index), Term: new(uint64(1)), Data: make([]byte, size)},
			First: record.Offset(index - 1), End: record.Offset(index), Count: 1,
		}
	}
	w := &countingWaiter{missing: 100}
	tail.Await(w, 0, 0)
	tail.Append([]Entry{entry(1, 30), entry(2, 40), entry(3, 50)})
	require.Equal(t, 100, w.missing, "nothing has committed")
	tail.Publish(0, 2, nil)
	require.Equal(t, 30, w.missing)
	tail.Publish(0, 2, nil)
	require.Equal(t, 30, w.missing, "each counts once")
	tail.Leave(w)
	tail.Publish(0, 3, nil)
	require.Equal(t, 30, w.missing)

	tail.Await(w, 0, 2)
	require.Zero(t, w.missing, "there is more than it knows already")
	w.missing = 100
	tail.Await(w, 0, 3)
	tail.Publish(1, 3, nil)
	require.Zero(t, w.missing, "the start has moved")
	w.missing = 100
	tail.Await(w, 1, 3)
	tail.Fail(errors.New("the disk failed"))
	require.Zero(t, w.missing)
}

// The hold moves and the log is trimmed to it in one step, or in steps that nobody sees between: whoever
// sees the new start learns where the hold points now.
func TestWhoSeesANewStartLearnsOfTheHoldThatMovedThere(t *testing.T) {
	tail := New(budget.NewShares(1<<20), 0, 10)
	tail.Publish(0, 10, []record.Hold{{Name: "snapshot", Offset: 2, Pointer: []byte("old")}})
	tail.Publish(7, 10, []record.Hold{{Name: "snapshot", Offset: 7, Pointer: []byte("new")}})
	start, _, err := tail.Bounds()
	require.NoError(t, err)
	require.Equal(t, "new", string(RefuseTrimmed(tail, 3, start).Hold.Pointer))
	tail.Publish(7, 10, nil)
	require.Nil(t, RefuseTrimmed(tail, 3, start).Hold, "it was released, and no bound moved")
	tail.Reset(20, []record.Hold{{Name: "snapshot", Offset: 20, Pointer: []byte("newer")}})
	require.Equal(t, "newer", string(RefuseTrimmed(tail, 3, 20).Hold.Pointer))
}
