package transport

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASilentClientHoldsUpNobodyAndNoByteIsLost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	const magic, another = "\xf5STRAND\n", "\xf5STREAM\n"
	sorted, others := Split(l, magic, another)
	peers, streams := sorted[0], sorted[1]
	dial := func(say string) net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, say)
		require.NoError(t, err)
		return conn
	}
	dial("")
	dial(magic[:3]) // a peer that stalls
	for _, c := range []struct {
		from net.Listener
		say  string
	}{{peers, magic + "and more"}, {streams, another + "and more"}, {others, "PRI * HTTP/2.0"}, {others, "G"}, {others, magic[:4] + "x"}} {
		_ = dial(c.say).(*net.TCPConn).CloseWrite()
		conn, err := c.from.Accept()
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, c.say, string(got))
		require.NoError(t, conn.Close())
	}
	require.NoError(t, others.Close())
	_, err = others.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	dial(magic)
	conn, err := peers.Accept()
	require.NoError(t, err, "one half goes on without the other")
	require.NoError(t, conn.Close())
	require.NoError(t, peers.Close())
	require.NoError(t, streams.Close())
}

func TestClosingTheListenersLeavesWhatWasAcceptedOpen(t *testing.T) {
	const magic = "\xf5STRAND\n"
	for range 300 { // the one who sorts may come to its end before the close, or after it
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		sorted, others := Split(l, magic)
		client, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(client, "PRI")
		require.NoError(t, err)
		conn, err := others.Accept()
		require.NoError(t, err)
		require.NoError(t, others.Close())
		require.NoError(t, sorted[0].Close())
		_, err = io.WriteString(conn, "x")
		require.NoError(t, err)
		_, err = io.ReadFull(client, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, client.Close())
	}
}
