package topics

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// owingNode has logs with some chunks of one record, behind which a reader waits for what its caller owes.
type owingNode struct {
	backend.Node
	chunks int
	asked  *reading.Request
}

func (n owingNode) Read(_ context.Context, _ verbs.Caller, _ string, q reading.Request) (guard.Reader, error) {
	*n.asked = q
	return &owingReader{left: n.chunks}, nil
}

type owingReader struct {
	guard.Reader
	next record.Offset
	left int
}

func (r *owingReader) Next(context.Context) (reading.Chunk, error) {
	if r.left == 0 {
		return reading.Chunk{}, record.Refuse(record.Busy, "try again later")
	}
	r.left--
	var b record.Builder
	if err := b.Add(record.Record{Timestamp: 7}); err != nil {
		return reading.Chunk{}, err
	}
	batch, err := b.Finish(record.None)
	batch.SetBaseOffset(r.next)
	r.next++
	return reading.Chunk{First: r.next - 1, Count: 1, Parts: [][]byte{batch}, Bytes: len(batch), Release: func() {}}, err
}

func (r *owingReader) Close() {}

func TestALookupByTimeThatOwesTooMuchAnswersWithWhatItHasReached(t *testing.T) {
	var asked reading.Request
	by := time.Now().Add(maxLookupPays)
	find := func(chunks int) (record.Record, error) {
		return firstSince(&backend.Call{Node: owingNode{chunks: chunks, asked: &asked}, Ctx: t.Context(), PayBy: by}, "orders", 1000)
	}
	found, err := find(3)
	require.NoError(t, err)
	require.EqualValues(t, 2, found.Offset)
	require.Equal(t, by, asked.PayBy)
	_, err = find(0)
	var r *record.Refusal
	require.ErrorAs(t, err, &r, "nothing was reached: the client tries again")
	require.Equal(t, record.Busy, r.Reason)
}
