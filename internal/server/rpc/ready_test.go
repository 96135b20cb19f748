package rpc

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
)

// countingPool counts the buffers that were taken and those that are out.
type countingPool struct{ taken, out atomic.Int64 }

func (p *countingPool) Get(size int) *[]byte {
	p.taken.Add(1)
	p.out.Add(1)
	return new(make([]byte, size))
}

func (p *countingPool) Put(*[]byte) { p.out.Add(-1) }

func TestAnIdleConnectionHoldsNoBuffer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	socket, err := l.Accept()
	require.NoError(t, err)
	defer socket.Close()
	inflow := newInflow(budget.NewInflow(1 << 20))
	defer inflow.close()
	conn := &countedConn{Conn: socket, inflow: inflow}

	type read struct {
		buffer *[]byte
		n      int
		err    error
	}
	var pool countingPool
	reads := make(chan read, 1)
	go func() {
		buffer, n, err := conn.ReadOnReady(readBuffer, &pool)
		reads <- read{buffer, n, err}
	}()
	require.Eventually(t, func() bool { return pool.taken.Load() > 0 && pool.out.Load() == 0 }, time.Minute, time.Millisecond)
	require.Empty(t, reads, "it waits")
	_, err = client.Write([]byte("something"))
	require.NoError(t, err)
	got := <-reads
	require.NoError(t, got.err)
	require.Equal(t, "something", string((*got.buffer)[:got.n]))
	require.Equal(t, int64(1), pool.out.Load())

	require.NoError(t, client.Close())
	buffer, n, err := conn.ReadOnReady(readBuffer, &pool)
	require.Nil(t, buffer)
	require.Zero(t, n)
	require.EqualError(t, err, "EOF")
	require.Equal(t, int64(1), pool.out.Load())
}
