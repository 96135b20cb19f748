package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

func (f *fakeServer) AcquireWriter(context.Context, *strandlinev1.AcquireWriterRequest) (*strandlinev1.AcquireWriterResponse, error) {
	return &strandlinev1.AcquireWriterResponse{WriterTerm: 1}, nil
}

func (f *fakeServer) ListLogs(_ context.Context, q *strandlinev1.ListLogsRequest) (*strandlinev1.ListLogsResponse, error) {
	if f.list != nil {
		return f.list(q), nil
	}
	return &strandlinev1.ListLogsResponse{}, nil
}

// paused is a node whose process stands still: connections to it stay, and it takes new ones, but
// nothing that is sent to it is answered.
type paused struct {
	address string
	still   atomic.Bool
}

func (p *paused) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil || address != p.address {
		return conn, err
	}
	return &pausedConn{conn, p}, nil
}

type pausedConn struct {
	net.Conn
	of *paused
}

func (c *pausedConn) Write(b []byte) (int, error) {
	if c.of.still.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *pausedConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.of.still.Load() {
			return n, err
		}
	}
}

// pausedCluster is a client in use of a leader and another node, and stops the leader: the other
// one leads from then on.
func pausedCluster(t *testing.T, patience time.Duration, opts ...client.Option) (c *client.Client, leader, next *fakeServer, stop func()) {
	t.Helper()
	servers := fakeCluster(t, 2, 50)
	leader, next = servers[1], servers[0]
	servers = []*fakeServer{leader, next} // the first is asked what any node can answer
	p := &paused{address: leader.address}
	c = dial(t, servers, append([]client.Option{client.WithDialer(p.dial), client.WithWaits(50*time.Millisecond, patience)}, opts...)...)
	for _, f := range servers {
		f.tries = []try{{}}
	}
	// What is known of the leader, and a connection to it.
	_, err := c.Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	requireRecords(t, readerOf(t, c), 0, 1)
	return c, leader, next, func() {
		next.mu.Lock()
		next.describe = func(_ *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
			info.Leader, info.LeaderTerm = next.address, 2
			return nil
		}
		next.mu.Unlock()
		p.still.Store(true)
	}
}

func TestACallLeavesALeaderThatStandsStill(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"AcquireWriter": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Admin().AcquireWriter(ctx, "orders")
			return err
		},
		"OpenSession": func(ctx context.Context, c *client.Client) error {
			_, err := c.Admin().OpenSession(ctx, "orders", time.Minute)
			return err
		},
		"KeepSession": func(ctx context.Context, c *client.Client) error {
			return c.Admin().KeepSession(ctx, "orders", client.Session{ID: 1})
		},
		"Producer": func(ctx context.Context, c *client.Client) error {
			p, err := c.Producer(ctx, "orders")
			if err == nil {
				err = p.Close(ctx)
			}
			return err
		},
		"Info": func(ctx context.Context, c *client.Client) error {
			_, err := c.Admin().Info(ctx, "orders")
			return err
		},
		"Trim": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Admin().Trim(ctx, "orders", 1, false)
			return err
		},
		"SetHold": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Admin().SetHold(ctx, "orders", client.HoldInfo{Name: "view"})
			return err
		},
		"KeepHold": func(ctx context.Context, c *client.Client) error {
			return c.Admin().KeepHold(ctx, "orders", "view")
		},
		"ListLogs": func(ctx context.Context, c *client.Client) error {
			_, err := c.Admin().ListLogs(ctx, false)
			return err
		},
		"CreateLog": func(ctx context.Context, c *client.Client) error {
			_, err := c.Admin().CreateLog(ctx, "more", client.LogConfig{})
			return err
		},
		"ClusterStatus": func(ctx context.Context, c *client.Client) error {
			_, err := c.Admin().ClusterStatus(ctx)
			return err
		},
		"a linearizable Reader": func(ctx context.Context, c *client.Client) error {
			r, err := c.Reader(ctx, "orders")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = r.Next(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			c, _, _, stop := pausedCluster(t, time.Second)
			stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, call(ctx, c))
		})
	}
}

func TestAFollowingReaderLeavesANodeThatStandsStill(t *testing.T) {
	t.Parallel()
	c, leader, next, stop := pausedCluster(t, time.Second)
	follow := func(f *fakeServer) func(int, *strandlinev1.ReadRequest, grpc.ServerStream) error {
		return func(_ int, q *strandlinev1.ReadRequest, s grpc.ServerStream) error {
			if err := f.serve(q, s, func() error { return nil }); err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
	}
	leader.reading, next.reading = follow(leader), follow(next)
	r := readerOf(t, c, client.WithFollow())
	requireRecords(t, r, 0, 50)
	next.mu.Lock()
	next.fill(t, 60)
	next.mu.Unlock()
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rec, err := r.Next(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 50, rec.Offset)
	require.Zero(t, leader.count(&leader.requests))
}

// A call may take its time: a node that answers other questions is not left.
func TestACallThatTakesLongIsLeftWithItsNode(t *testing.T) {
	t.Parallel()
	c, leader, next, _ := pausedCluster(t, time.Minute)
	asked := make(chan struct{}, 100)
	leader.mu.Lock()
	describe := leader.describe
	leader.describe = func(q *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
		if q.AllowStale {
			asked <- struct{}{}
		}
		return describe(q, info)
	}
	leader.mu.Unlock()
	leader.open = func(ctx context.Context) error {
		for range 2 { // looks at whether it is there
			select {
			case <-asked:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	s, err := c.Admin().OpenSession(t.Context(), "orders", time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.ID)
	require.Zero(t, next.opened)
}

func TestAHoldIsKeptWhileItsLeaderStandsStill(t *testing.T) {
	t.Parallel()
	c, leader, next, stop := pausedCluster(t, time.Second)
	ends, kept := make(chan time.Time, 100), make(chan time.Time, 100)
	leader.setHold = func(q *strandlinev1.SetHoldRequest) { ends <- time.Now().Add(q.Hold.Lease.AsDuration()) }
	next.keptHold = func() { kept <- time.Now() }
	h, err := c.Hold(t.Context(), "orders", client.HoldInfo{Name: "view", Lease: 12 * time.Second})
	require.NoError(t, err)
	defer h.Close()
	stop()
	select {
	case at := <-kept:
		require.True(t, at.Before(<-ends), "the lease has not ended")
	case <-time.After(time.Minute):
		t.Fatal("nobody keeps the hold")
	}
}

// The least lease is as long as that after which a node is suspected.
func TestAShortLeaseIsKeptWhileTheLeaderStandsStill(t *testing.T) {
	for _, renewed := range []string{"a Hold", "a Producer's session"} {
		t.Run(renewed, func(t *testing.T) {
			t.Parallel()
			c, _, next, stop := pausedCluster(t, 30*time.Second, client.WithWaits(time.Second, 30*time.Second))
			kept := make(chan bool, 1)
			note := func() {
				select {
				case kept <- true:
				default:
				}
			}
			next.keptHold, next.keep = note, func(context.Context) error { note(); return nil }
			const lease = 600 * time.Millisecond
			if renewed == "a Hold" {
				h, err := c.Hold(t.Context(), "orders", client.HoldInfo{Name: "view", Lease: lease})
				require.NoError(t, err)
				defer h.Close()
			} else {
				p, err := c.Producer(t.Context(), "orders", client.WithLease(lease))
				require.NoError(t, err)
				defer p.Close(context.Background())
			}
			stop()
			select {
			case <-kept:
			case <-time.After(13 * time.Second): // the transport notices after 15
				t.Fatal("the next leader is not asked to keep it")
			}
		})
	}
}

// quiet describes the log once.
func (f *fakeServer) quiet(s grpc.ServerStreamingServer[strandlinev1.WatchInfoResponse]) error {
	if err := s.Send(&strandlinev1.WatchInfoResponse{Info: &strandlinev1.LogInfo{Leader: f.address}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func TestAWatchLeavesANodeThatStandsStill(t *testing.T) {
	t.Parallel()
	c, leader, next, stop := pausedCluster(t, time.Second)
	leader.watched, next.watched = leader.quiet, next.quiet
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := false
	for info, err := range c.Admin().WatchInfo(ctx, "orders", 0) {
		if !began {
			require.NoError(t, err)
			require.Equal(t, leader.address, info.Leader)
			began = true
			stop()
			continue
		}
		require.ErrorIs(t, err, client.ErrUnreachable)
		require.ErrorContains(t, err, "does not answer", "the client has noticed, not the transport")
	}
	require.NoError(t, ctx.Err())

	c, _, next, stop = pausedCluster(t, time.Second)
	next.watched = next.quiet
	stop()
	for info, err := range c.Admin().WatchInfo(ctx, "orders", 0) {
		require.NoError(t, err, "the first answer is a part of finding a node")
		require.Equal(t, next.address, info.Leader)
		break
	}
}

// A call that found the next leader, and renewals that it answers, do not keep a producer at the one that stands still.
func TestAProducerLeavesALeaderThatOthersHaveLeft(t *testing.T) {
	t.Parallel()
	why := make(chan error, 100)
	c, _, next, stop := pausedCluster(t, time.Second, client.WithTroubleHandler(func(_ string, err error) { why <- err }))
	ctx := t.Context()
	p, err := c.Producer(ctx, "orders", client.WithLease(600*time.Millisecond))
	require.NoError(t, err)
	defer p.Close(context.Background())
	_, err = p.Append(ctx, []byte("a"))
	require.NoError(t, err)
	stop()
	_, err = c.Admin().Info(ctx, "orders")
	require.NoError(t, err)
	next.mu.Lock()
	next.sessions[1] = &fakeSession{next: 1, answers: map[place]int64{}}
	next.mu.Unlock()
	_, err = p.Append(ctx, []byte("b"))
	require.NoError(t, err)
	require.ErrorContains(t, <-why, "the leader is silent", "the client has noticed, not the transport")
}
