package suite

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/wire"
)

func TestALinkIsSlowBothWaysAndCounts(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.CopyN(conn, conn, 12) // what comes is the answer
		_, _ = io.Copy(io.Discard, conn)
	}()

	const roundTrip = 60 * time.Millisecond
	counter := wire.NewCounter(wire.Kafka)
	l := newLink(roundTrip, counter)
	conn, err := l.dial(t.Context(), "tcp", server.Addr().String())
	require.NoError(t, err)
	begin := time.Now()
	_, err = conn.Write([]byte{0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1})
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 12))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), roundTrip)

	counts, err := counter.Counts()
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Requests)
	require.EqualValues(t, 12, counts.Up)
	require.EqualValues(t, 12, counts.Down)
	require.NoError(t, conn.Close())
	require.NoError(t, l.close())
	<-ended
}
