package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a connection whose client sends bytes, whatever it is answered, and goes.
type script struct {
	net.Conn
	sent *bytes.Reader
	said bytes.Buffer
}

func (s *script) Read(b []byte) (int, error)    { return s.sent.Read(b) }
func (s *script) Write(b []byte) (int, error)   { return s.said.Write(b) }
func (*script) Close() error                    { return nil }
func (*script) SetDeadline(time.Time) error     { return nil }
func (*script) SetReadDeadline(time.Time) error { return nil }
func (*script) RemoteAddr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (*script) LocalAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1} }

// hello is what a client with these protocols begins with.
func hello(t testing.TB, protocols ...string) []byte {
	s := &script{sent: bytes.NewReader(nil)}
	err := tls.Client(s, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}).Handshake()
	require.ErrorIs(t, err, io.EOF)
	return s.said.Bytes()
}

// Whatever comes before a client has shown who it is, nobody is let in by it, it costs
// no more than it may, and nothing panics.
func FuzzHandshake(f *testing.F) {
	for _, seed := range [][]byte{nil, hello(f), hello(f, "h2"), hello(f, "none"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), []byte("\xf5STRAND\n")} {
		f.Add(seed)
		f.Add(append(bytes.Clone(seed), make([]byte, handshakeBytes)...))
	}
	ca := newAuthorityAt(f, "prod", f.TempDir())
	c, err := OpenNode("a", ca.node("a").withClients(ca.ca()), nil)
	require.NoError(f, err)
	g := NewGate(GateOptions{Credentials: c})
	l := &encryptedListener{countingListener: &countingListener{gate: g, port: Port{Name: "test", Protocols: []string{"h2"}}}, closing: context.Background()}
	l.begun.ofEach = map[netip.Prefix]int{}
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := &script{sent: bytes.NewReader(sent)}
		c := &conn{Conn: s, handshaking: true, left: handshakeBytes}
		place := l.begun.enter(c, prefixOf(s.RemoteAddr()))
		defer l.begun.leave(place)
		_, err := l.shakeHands(c, place)
		require.Error(t, err)
		require.Zero(t, c.principal)
		require.LessOrEqual(t, len(sent)-s.sent.Len(), handshakeBytes)
		if len(sent) > handshakeBytes && s.sent.Len() == len(sent)-handshakeBytes {
			require.True(t, errors.Is(err, errTooMuch), err)
		}
	})
}
