package client_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) {
	// Clients wait for time to pass in most tests: more of them than processors go side by side.
	_ = flag.Set("test.parallel", "8")
	leaks.Main(m)
}

func TestADialerMakesEveryConnection(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	const name = "127.0.0.1:1" // nobody is there: only the dialer knows where it leads
	var dialled atomic.Int64
	c, err := client.Dial([]string{name}, client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		require.Equal(t, name, address)
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", f.address)
	}))
	require.NoError(t, err)
	defer c.Close()
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	offset, err := p.Append(t.Context(), []byte("through it"))
	require.NoError(t, err)
	require.Zero(t, offset)
	require.NoError(t, p.Close(t.Context()))
	require.EqualValues(t, 2, dialled.Load(), "for calls, and for the stream, which this server does not know")
}

// Without a server that knows other streams, asking for them costs one connection a
// minute and nothing else; WithStreamsOverGRPC spares that.
func TestStreamsOverGRPCNeedOneConnection(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	for want, options := range map[int64][]client.Option{1: {client.WithStreamsOverGRPC()}, 2: nil} {
		var dialled atomic.Int64
		c, err := client.Dial([]string{f.address}, append(options, client.WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dialled.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))...)
		require.NoError(t, err)
		for range 3 {
			p, err := c.Producer(t.Context(), "orders")
			require.NoError(t, err)
			_, err = p.Append(t.Context(), []byte("record"))
			require.NoError(t, err)
			require.NoError(t, p.Close(t.Context()))
		}
		require.NoError(t, c.Close())
		require.Equal(t, want, dialled.Load())
	}
}

func (f *fakeServer) WatchInfo(q *strandlinev1.WatchInfoRequest, s grpc.ServerStreamingServer[strandlinev1.WatchInfoResponse]) error {
	if f.watched != nil {
		return f.watched(s)
	}
	for end := range int64(3) {
		if err := s.Send(&strandlinev1.WatchInfoResponse{Info: &strandlinev1.LogInfo{Name: q.Log, EndOffset: end}}); err != nil {
			return err
		}
	}
	return refuse(record.LogNotFound)
}

func TestALogIsDescribedAsTheServerDoes(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	info, err := f.client(t).Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, "orders", info.Name)
	require.Equal(t, client.LogConfig{Durability: client.Memory, Retention: time.Minute}, info.Config)
}

func TestWatchingYieldsEveryChangeAndThenTheError(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	var ends []int64
	var last error
	for info, err := range f.client(t).Admin().WatchInfo(t.Context(), "orders", 0) {
		if last = err; err == nil {
			ends = append(ends, info.End)
		}
	}
	require.Equal(t, []int64{0, 1, 2}, ends)
	require.ErrorIs(t, last, client.ErrLogNotFound)
}

func TestAddressesOtherThanLoopbackNeedToBeAllowed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"10.1.2.3:7171", "example.com:7171", "localhost"} {
		_, err := client.Dial([]string{address})
		require.ErrorIs(t, err, client.ErrInvalid, address)
	}
	for _, address := range []string{"127.0.0.1:7171", "[::1]:7171", "localhost:7171"} {
		c, err := client.Dial([]string{address})
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	c, err := client.Dial([]string{"10.1.2.3:7171"}, client.WithInsecure())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = c.Admin().Info(t.Context(), "orders")
	require.ErrorIs(t, err, client.ErrClosed)
}

func TestEveryReasonOfTheServerHasAName(t *testing.T) {
	t.Parallel()
	known := []error{
		client.ErrInvalid, client.ErrTooLarge, client.ErrLogNotFound, client.ErrLogExists, client.ErrOffsetTrimmed,
		client.ErrOffsetBeyondEnd, client.ErrSessionNotFound, client.ErrSessionExpired, client.ErrStaleEpoch,
		client.ErrSequenceGap, client.ErrOutcomeForgotten, client.ErrFenced, client.ErrEndMismatch, client.ErrNotLeader,
		client.ErrFull, client.ErrBusy, client.ErrSealed, client.ErrOutcomeUnknown, client.ErrStorageFailed,
		client.ErrCorrupt, client.ErrDataLost, client.ErrShuttingDown, client.ErrUnsupported,
		client.ErrStale, client.ErrNoNode, client.ErrNotMember, client.ErrLogReplaced, client.ErrPrecondition,
		client.ErrHeld, client.ErrHoldNotFound, client.ErrUnauthenticated, client.ErrPermissionDenied,
		client.ErrFilterInvalid, client.ErrFilterFailed, client.ErrConflict, client.ErrCheckTooOld,
	}
	for i, reason := range record.Reasons() {
		require.True(t, errors.Is(known[i], &client.Error{Reason: reason.String()}), reason.String())
	}
	require.Len(t, known, len(record.Reasons()))
}

func TestAQuantileIsAtMostAnEighthTooHigh(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	p := f.producer(t)
	for n := 1; n <= 100; n++ {
		_, err := p.AppendBatch(t.Context(), make([]client.Record, n))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context())) // an answer is counted after its waiter is woken
	h := p.Stats().RequestRecords
	require.EqualValues(t, 100, h.Count)
	require.EqualValues(t, 5050, h.Sum)
	require.InDelta(t, 50.5, h.Mean(), 0.01)
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 1} {
		exact := min(100, 100*q+1)
		got := float64(h.Quantile(q))
		require.GreaterOrEqual(t, got, exact)
		require.LessOrEqual(t, got, exact*9/8+1)
	}
	require.Zero(t, client.Histogram{}.Quantile(0.5))
	require.Zero(t, client.Histogram{}.Mean())
}
