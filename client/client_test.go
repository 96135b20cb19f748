package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"strandline.dev/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestADialerMakesEveryConnection(t *testing.T) {
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
