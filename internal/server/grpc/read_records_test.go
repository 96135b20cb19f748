package grpcserver

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// silentStream is a stream on which nothing is sent.
type silentStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silentStream) Context() context.Context { return s.ctx }

// A chunk without a record that is wanted makes no frame.
func TestWhatIsInflatedForNoRecordIsNotCountedAfterwards(t *testing.T) {
	t.Parallel()
	n, err := node.Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Memory: 256 << 20, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	_, err = n.CreateLog(t.Context(), verbs.Caller{}, "orders", settings.Config{})
	require.NoError(t, err)
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: bytes.Repeat([]byte("x"), 1<<20)}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	answers := make(chan sequence.Answer, 1)
	n.Append(verbs.Caller{}, "orders", &sequence.Append{
		ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: 1, Bytes: len(batch),
	}, nil, func(a sequence.Answer) { answers <- a })
	require.Nil(t, (<-answers).Refusal)

	r, err := n.Read(t.Context(), verbs.Caller{}, "orders", reading.Request{Metered: true, Until: reading.NoOffset})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	c, err := r.Next(t.Context())
	require.NoError(t, err)
	c.First, c.Count = 1, 0
	for range c.Records(t.Context()) {
		require.Fail(t, "it has no record")
	}
	require.GreaterOrEqual(t, n.Memory().Reads.Used(), int64(1<<20))
	frames := &recordFrames{stream: &readStream{stream: silentStream{ctx: t.Context()}}, most: frameBytes}
	require.NoError(t, frames.send(c))
	require.Zero(t, n.Memory().Reads.Used())
}
