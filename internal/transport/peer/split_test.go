package peer

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASilentClientHoldsUpNobodyAndNoByteIsLost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	peers, others := Split(l)
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
	}{{peers, magic + "and more"}, {others, "PRI * HTTP/2.0"}, {others, "G"}, {others, magic[:4] + "x"}} {
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
}

func TestNodesMeetOnASharedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	peers, others := Split(l)
	b := newMember(t, 2)
	b.node.Address = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := peers.Accept()
			if err != nil {
				return
			}
			b.Accept(conn)
		}
	}()
	a := newMember(t, 1)
	join(a, b)
	require.True(t, next(t, a.changes).up)
	require.NoError(t, peers.Close())
	require.NoError(t, others.Close())
	<-done
}
