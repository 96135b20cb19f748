package transport

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sent is a connection whose client has sent everything, some bytes at a time.
type sent struct {
	net.Conn
	from io.Reader
	step int
}

func (c *sent) Read(b []byte) (int, error)    { return c.from.Read(b[:min(len(b), c.step)]) }
func (*sent) SetReadDeadline(time.Time) error { return nil }
func (*sent) Close() error                    { return nil }

// once is a listener of one connection.
type once struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *once) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conn:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *once) Close() error { close(l.closed); return nil }
func (*once) Addr() net.Addr { return &net.TCPAddr{} }

// FuzzSplit: a connection goes where its first bytes say, or to the others, with all of them.
func FuzzSplit(f *testing.F) {
	const peers, streams = "\xf5STRAND\n", "\xf5STREAM\n"
	for _, seed := range []string{peers + "x", streams + "x", "PRI * HTTP/2.0\r\n", "\xf5STRA", "\xf5STRENG", "x"} {
		f.Add([]byte(seed), uint8(1))
		f.Add([]byte(seed), uint8(64))
	}
	f.Fuzz(func(t *testing.T, said []byte, step uint8) {
		if len(said) == 0 {
			return // it is closed
		}
		l := &once{make(chan net.Conn, 1), make(chan struct{})}
		l.conn <- &sent{from: bytes.NewReader(said), step: 1 + int(step)}
		sorted, others := Split(l, peers, streams)
		want := others
		switch {
		case strings.HasPrefix(string(said), peers):
			want = sorted[0]
		case strings.HasPrefix(string(said), streams):
			want = sorted[1]
		}
		conn, err := want.Accept()
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, said, got)
		for _, part := range append(sorted, others) {
			require.NoError(t, part.Close())
		}
	})
}
