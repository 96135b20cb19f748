package embed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
)

// shortConn breaks when so many bytes have been received.
type shortConn struct {
	net.Conn
	left atomic.Int64
	cuts *atomic.Int64
}

func (c *shortConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.left.Add(-int64(n)) < 0 {
		c.cuts.Add(1)
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return n, err
}

func TestAFilteredReadContinuesWhereItsConnectionWasCutAndTheLeaderMoved(t *testing.T) {
	t.Parallel()
	const free = "127.0.0.1:0"
	cluster := open(t, t.TempDir(), embed.WithNodes(3), embed.WithGRPC(free, free, free))
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	const batches, each = 160, 64
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for i := range batches {
		var batch []client.Record
		for j := range each {
			batch = append(batch, client.Record{Key: fmt.Appendf(nil, "customer-%d", (i*each+j)%3), Value: make([]byte, 1<<10)})
		}
		_, err := p.AppendBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))
	var addresses, names []string
	for _, n := range cluster.Nodes() {
		addresses, names = append(addresses, n.GRPC), append(names, n.Name)
	}
	for name, options := range map[string][]client.Option{"streams": nil, "gRPC": {client.WithStreamsOverGRPC()}} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(14, 3))
			var cuts, dials atomic.Int64
			dial := func(ctx context.Context, address string) (net.Conn, error) {
				made, err := new(net.Dialer).DialContext(ctx, "tcp", address)
				if err != nil {
					return nil, err
				}
				s := &shortConn{Conn: made, cuts: &cuts}
				s.left.Store(400<<10 + dials.Add(1)*(300<<10)%(3<<20)) // a frame has up to 350 KiB
				return s, nil
			}
			short, err := client.Dial(addresses, append(options, client.WithDialer(dial), client.WithRetryTime(time.Minute))...)
			require.NoError(t, err)
			defer short.Close()
			r, err := short.Reader(t.Context(), "orders", client.WithFilter(client.Filter{Keys: [][]byte{[]byte("customer-1")}}))
			require.NoError(t, err)
			defer r.Close()
			due, move := int64(1), int64(0)
			for {
				next, err := r.Next(t.Context())
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				require.Equal(t, due, next.Offset)
				if due += 3; due >= move {
					move += batches * each / 4
					err := c.Admin().TransferLeader(t.Context(), "orders", names[random.IntN(len(names))])
					var refused *client.Error
					require.True(t, err == nil || errors.As(err, &refused), err)
				}
			}
			require.GreaterOrEqual(t, due, int64(batches*each))
			require.GreaterOrEqual(t, cuts.Load(), int64(2))
		})
	}
}
