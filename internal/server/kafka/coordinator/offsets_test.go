package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/protocol"
)

// commitOf is a commit of partition 0 of topic "orders".
func commitOf(group string, offset, unixMs int64) offsetChange {
	return offsetChange{Group: group, Time: unixMs, Commits: []offsetCommit{{Topic: "orders", committed: committed{Offset: offset, Epoch: -1}}}}
}

func TestTheLogOfOffsetsDoesNotGrowWithTheNumberOfCommits(t *testing.T) {
	d := open(t)
	o, term := d.c.offsets, d.term
	require.NoError(t, o.write(t.Context(), term, commitOf("old", 7, 1)))
	var all []offsetChange
	for i := range offsetBatch {
		all = append(all, commitOf("billing", int64(i), 1))
	}
	for range checkpointAfter/offsetBatch + 1 {
		require.NoError(t, o.append(term, all))
	}
	require.NoError(t, o.checkpoint())
	b, err := d.node.Bounds(backend.System, backend.OffsetsLog)
	require.NoError(t, err)
	require.EqualValues(t, 2, b.End-b.Start, "a record for each group is left")

	// Who takes over reads the same from what is left.
	other := d.another()
	require.Equal(t, o.state, other.state)
	require.Equal(t, 4, other.state.count)
}

func TestACommitWaitsForNoOtherLeadership(t *testing.T) {
	d := open(t)
	o, term := d.c.offsets, d.term
	other := d.another()
	// An append of this leadership whose answer did not come is caught up with.
	require.NoError(t, other.write(t.Context(), term, commitOf("late", 1, 1)))
	require.NoError(t, o.write(t.Context(), term, commitOf("billing", 1, 1)))
	require.EqualValues(t, 1, o.of("late").offsets[partition{"orders", 0}].Offset)
	// What was decided on in another one is not appended at all.
	require.Equal(t, kerr.NotCoordinator, o.write(t.Context(), term-1, commitOf("billing", 0, 1)))
	require.NoError(t, o.load(t.Context(), term+1))
	require.Equal(t, kerr.NotCoordinator, o.write(t.Context(), term, commitOf("billing", 0, 1)))
	require.EqualValues(t, 1, o.of("billing").offsets[partition{"orders", 0}].Offset)
}

func TestACommitThatANodeStopsInIsForTheNextCoordinator(t *testing.T) {
	stops, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, kerr.NotCoordinator, ended(stops))
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	require.Equal(t, kerr.RequestTimedOut.Code, protocol.CodeOf(ended(late)))
}
