package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
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
	var all []encodedChange
	for i := range offsetBatch {
		c, err := encoded(commitOf("billing", int64(i), 1))
		require.NoError(t, err)
		all = append(all, c...)
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

// Metadata takes six times as much in the log as in memory where JSON escapes it: records are gathered by what they take
// there, so that no commit, and no checkpoint, is refused for what comes with it.
func TestLargeCommitsShareNoAppend(t *testing.T) {
	d := open(t)
	o, term := d.c.offsets, d.term
	large := offsetChange{Group: "billing", Time: 1}
	for p := range 1000 {
		large.Commits = append(large.Commits, offsetCommit{Topic: "orders", Partition: int32(p), committed: committed{Epoch: -1, Metadata: strings.Repeat("<", MaxCommitMetadata)}})
	}
	require.NoError(t, o.write(t.Context(), term, large, commitOf("other", 1, 1)))
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return !o.writing
	}, time.Minute, time.Millisecond)
	o.since = checkpointAfter + o.state.count
	require.NoError(t, o.checkpoint())
	b, err := d.node.Bounds(backend.System, backend.OffsetsLog)
	require.NoError(t, err)
	require.LessOrEqual(t, int64(b.End-b.Start), int64(2*1000*6*MaxCommitMetadata/offsetBytes), "records of half an append or more")
	require.Equal(t, o.state, d.another().state)
	require.Len(t, o.state.groups["billing"].offsets, 1000)
}

// heldLog is a node that refuses trims while held is set.
type heldLog struct {
	backend.Node
	held bool
}

func (n *heldLog) Trim(ctx context.Context, c verbs.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	if n.held {
		return 0, 0, record.Refuse(record.Held, "it is held")
	}
	return n.Node.Trim(ctx, c, log, before, fastForward)
}

func TestACheckpointThatFailsIsTriedAgainLater(t *testing.T) {
	d := open(t)
	o, n := d.c.offsets, &heldLog{d.c.offsets.node, true}
	o.node = n
	c, err := encoded(commitOf("billing", 1, 1))
	require.NoError(t, err)
	require.NoError(t, o.append(d.term, c))
	due := checkpointAfter + o.state.count
	o.since = due
	require.Error(t, o.checkpoint())
	require.Equal(t, due+1, o.since, "it has written one record")
	require.NoError(t, o.checkpoint(), "it is not due")
	require.Equal(t, due+1, o.since)
	o.since += checkpointAgain
	require.Error(t, o.checkpoint())
	o.since += checkpointAgain
	n.held = false
	require.NoError(t, o.checkpoint())
	require.Zero(t, o.since)
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
