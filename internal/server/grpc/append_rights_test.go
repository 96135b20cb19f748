package grpcserver

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
)

// compressed is a batch of a few hundred bytes that inflates to so many.
func compressed(t *testing.T, inflated int) record.Batch {
	t.Helper()
	var b record.Builder
	require.NoError(t, b.Add(record.Record{Value: make([]byte, inflated)}))
	batch, err := b.Finish(record.Zstd)
	require.NoError(t, err)
	require.Less(t, len(batch), 4<<10)
	return batch
}

// busy is a server's memory where somebody else has all turns to inflate, until done.
func busy(t *testing.T) (o rpc.Options, turns *budget.Turns, done func()) {
	t.Helper()
	m := budget.New(64 << 20)
	held := 0
	for ; m.Inflate.Free() > 0; held++ {
		require.NoError(t, m.Inflate.Acquire(t.Context(), "somebody else"))
	}
	return rpc.Options{Inflating: rpc.NewInflating(m)}, m.Inflate, func() {
		for range held {
			m.Inflate.Release()
		}
	}
}

// What would be inflated or decoded waits for a turn that never comes, or is charged to a
// budget that does not suffice.
func TestWhatACallerMayNotAppendIsNotLookedInto(t *testing.T) {
	t.Parallel()
	o, _, _ := busy(t)
	o.Appends = budget.NewPool(1 << 20)
	many := &strandlinev1.AppendRequest{Log: "secret"}
	for range 100_000 { // 2 bytes each, and 192 when decoded
		many.Records = append(many.Records, &strandlinev1.Record{})
	}
	d := serve(t, newFakeNode(), o)
	s := d.append(t)
	for _, q := range []any{
		&wire.AppendRequest{Log: "secret", Batches: compressed(t, 1<<20)},
		many,
		&wire.AppendRequest{Log: "secret", Batches: bytes.Repeat([]byte("no batch"), 1000)},
	} {
		require.NoError(t, s.SendMsg(q))
		require.Equal(t, int32(codes.PermissionDenied), s.receive().Refused.GetCode())
	}
	s = d.append(t)
	s.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "a")})
	require.Nil(t, s.receive().Refused)
}

// A client names the log once, and sends on before it has heard of the first refusal.
func TestRequestsBehindOneThatIsRefusedAreOfTheSameLog(t *testing.T) {
	t.Parallel()
	f := newFakeNode()
	f.busy.Store(true)
	s := serve(t, f, rpc.Options{}).append(t)
	s.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "a")})
	s.send(&wire.AppendRequest{Batches: batchOf(t, 0, "b")})
	for range 2 {
		require.Equal(t, int32(codes.ResourceExhausted), s.receive().Refused.GetCode())
	}
	f.busy.Store(false)
	s.send(&wire.AppendRequest{Batches: batchOf(t, 0, "a")})
	require.Nil(t, s.receive().Refused)
	s.send(&wire.AppendRequest{Log: "others", Batches: batchOf(t, 0, "a")})
	require.Equal(t, int32(codes.InvalidArgument), s.receive().Refused.GetCode())

	s = serve(t, newFakeNode(), rpc.Options{}).append(t)
	for _, name := range []string{"secret", "", "secret"} {
		s.send(&wire.AppendRequest{Log: name, Batches: compressed(t, 1)})
		require.Equal(t, int32(codes.PermissionDenied), s.receive().Refused.GetCode())
	}
}

func TestCompressedBatchesAreCheckedInTurns(t *testing.T) {
	t.Parallel()
	o, turns, done := busy(t)
	d := serve(t, newFakeNode(), o)
	waits, passes := d.append(t), d.append(t)
	waits.send(&wire.AppendRequest{Log: "orders", Batches: compressed(t, 1<<20)})
	passes.send(&wire.AppendRequest{Log: "orders", Batches: batchOf(t, 0, "a")})
	require.Nil(t, passes.receive().Refused)
	require.Eventually(t, turns.Waiting, time.Minute, time.Millisecond)
	done()
	require.Nil(t, waits.receive().Refused)
}

func TestACheckThatIsGivenUpMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	o, _, _ := busy(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := o.Inflating.Check(ctx, "somebody", compressed(t, 1))
	var r *record.Refusal
	require.ErrorAs(t, err, &r)
	require.True(t, r.Reason.Retryable())
	require.Equal(t, record.NotDone, r.Reason.Outcome())
}
