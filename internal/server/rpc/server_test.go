package rpc

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// serve runs a server on loopback and returns its address.
func serve(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		require.NoError(t, <-served)
	})
	return s, l.Addr().String()
}

func connect(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestWhoWatchesTheHealthDoesNotHoldAStopUp(t *testing.T) {
	t.Parallel()
	s, address := serve(t, Options{})
	watch, err := grpc_health_v1.NewHealthClient(connect(t, address)).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)

	s.Stop(t.Context()) // which does not end
	for err == nil {
		_, err = watch.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err), err)
}

func TestAConnectionBeyondTheLimitIsClosedUntilOneLeaves(t *testing.T) {
	t.Parallel()
	s, address := serve(t, Options{MaxConnections: 1})
	check := func(conn *grpc.ClientConn) error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	first, second := connect(t, address), connect(t, address)
	require.NoError(t, check(first))
	require.Equal(t, codes.Unavailable, status.Code(check(second)))
	require.NoError(t, second.Close()) // it would connect again, and take the place
	require.NoError(t, check(first))

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.connections.Load() == 0 }, waitFor, tick)
	third := connect(t, address)
	require.NoError(t, check(third))
}

// Whoever wants to know why nothing works must be able to ask.
func TestTheLastConnectionsAreForCallsOnly(t *testing.T) {
	t.Parallel()
	s, address := serve(t, Options{MaxConnections: 10})
	check := func(conn *grpc.ClientConn) error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	watch := func(conn *grpc.ClientConn) error {
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	var conns []*grpc.ClientConn
	for range 9 {
		conn := connect(t, address)
		require.NoError(t, watch(conn))
		conns = append(conns, conn)
	}
	for round := 0; ; round++ {
		require.Less(t, round, 20, "never within %v", reservedLeast)
		began := time.Now()
		last := connect(t, address)
		require.NoError(t, check(last))
		err := watch(last)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.Contains(t, err.Error(), "all 10 connections")
		beyond := connect(t, address)
		err = check(beyond)
		inTime := time.Since(began) < reservedLeast // after which last makes room
		require.NoError(t, beyond.Close())
		require.NoError(t, last.Close())
		if inTime {
			require.Equal(t, codes.Unavailable, status.Code(err))
			break
		}
		require.Eventually(t, func() bool { return s.connections.Load() == 9 }, waitFor, tick)
	}
	require.NoError(t, conns[0].Close())
	require.Eventually(t, func() bool { return s.connections.Load() == 8 }, waitFor, tick)
	require.NoError(t, watch(connect(t, address)))
}

// A client that holds all of the last connections, and connects again as soon as one
// is closed, keeps nobody else from asking.
func TestNoHostKeepsTheLastConnectionsFromOthers(t *testing.T) {
	t.Parallel()
	s, address := serve(t, Options{MaxConnections: 20})
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	for open := range 20 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		if open >= 18 {
			go func(conn net.Conn, err error) {
				for err == nil {
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
					time.Sleep(tick) // leaves time for others where there are few cores
					conn, err = net.Dial("tcp", address)
				}
			}(conn, nil)
		}
		require.Eventually(t, func() bool { return s.connections.Load() > int64(open) }, waitFor, tick)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var dialled atomic.Int64
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dialled.Add(1)
			return other.DialContext(ctx, "tcp", address)
		}))
	require.NoError(t, err)
	defer conn.Close()
	began := time.Now()
	for range 20 {
		require.Eventually(t, func() bool {
			_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			return err == nil
		}, waitFor, tick)
	}
	// A connection may make room only when it has had its time.
	require.LessOrEqual(t, dialled.Load(), 1+int64(time.Since(began)/reservedLeast))
}

func TestACallWithAnOversizedMessageIsRefused(t *testing.T) {
	t.Parallel()
	_, address := serve(t, Options{})
	request := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", MaxCallBytes+1)}
	_, err := grpc_health_v1.NewHealthClient(connect(t, address)).Check(context.Background(), request)
	require.Equal(t, codes.Internal, status.Code(err))
	require.Contains(t, err.Error(), "the limit of this call is 1048576")
}

func TestHealthTurnsAndStreamsHearItWhenTheServerStops(t *testing.T) {
	t.Parallel()
	s, address := serve(t, Options{})
	watch, err := grpc_health_v1.NewHealthClient(connect(t, address)).Watch(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	answer, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.Status)

	ctx, cancel := s.UntilStop(context.Background())
	defer cancel()
	stopped := make(chan struct{})
	stop, cut := context.WithCancel(context.Background())
	go func() { s.Stop(stop); close(stopped) }()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrStopping)
	answer, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, answer.Status)

	// The watch would continue; Stop waits for it until it is cut off.
	cut()
	<-stopped
	_, err = watch.Recv()
	require.Error(t, err)
}

const (
	waitFor = time.Minute
	tick    = time.Millisecond
)
