package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// A log whose loop does not get to its messages leaves the others their share.
func TestArrivalsBeyondALogsShareAreDropped(t *testing.T) {
	all := budget.NewShares(4 << 20)
	busy, other := arrivals{all: all}, arrivals{all: all}
	message := &raftpb.Message{Entries: []*raftpb.Entry{{Data: make([]byte, 1<<20)}}}
	for range 4 {
		require.True(t, busy.admit(message))
	}
	require.False(t, busy.admit(message))
	require.True(t, busy.admit(&raftpb.Message{}), "without entries")
	require.True(t, other.admit(message), "one message always")
	require.True(t, other.admit(message), "half is its share")
	require.False(t, other.admit(message))
	for range 4 {
		busy.taken(message)
	}
	require.True(t, other.admit(message))
	for range 3 {
		other.taken(message)
	}
	require.Zero(t, all.Used())
}
