package secure

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestASilentClientHasTenSecondsForItsHandshake(t *testing.T) {
	ca := newAuthority(t, "prod")
	credentials, err := OpenNode("a", ca.node("a").withClients(ca.ca()), nil)
	require.NoError(t, err)
	for _, plainToo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(GateOptions{Credentials: credentials, Plain: plainToo})
			l := &encryptedListener{countingListener: &countingListener{gate: g, port: Port{Name: "test"}}, closing: context.Background()}
			l.begun.ofEach = map[netip.Prefix]int{}
			client, server := net.Pipe()
			defer client.Close()
			c := &conn{Conn: server, handshaking: true, left: handshakeBytes}
			began := time.Now()
			_, err := l.shakeHands(c, l.begun.enter(c, netip.Prefix{}))
			require.Error(t, err)
			require.Equal(t, handshakeTime, time.Since(began))
			_ = server.Close()
		})
	}
}

// A client that shows no certificate, where it may prove who it is in another way, has as
// much time and as many bytes for that.
func TestAClientThatHasProvedNothingHasTenSecondsAnd64KiB(t *testing.T) {
	ready := func() (c *conn, client net.Conn) {
		client, server := net.Pipe()
		c = &conn{Conn: server}
		c.await()
		go func() { _, _ = client.Write(bytes.Repeat([]byte("x"), 2*handshakeBytes)) }()
		return c, client
	}
	synctest.Test(t, func(t *testing.T) {
		c, client := ready()
		taken, err := io.Copy(io.Discard, c)
		require.ErrorIs(t, err, errTooMuch)
		require.EqualValues(t, handshakeBytes, taken)
		require.NoError(t, client.Close())
		require.NoError(t, c.Close())

		c, client = ready()
		time.Sleep(handshakeTime - 1)
		_, err = c.Read(make([]byte, 1))
		require.NoError(t, err)
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NoError(t, client.Close())

		c, client = ready()
		Proved(c.RemoteAddr())
		time.Sleep(2 * handshakeTime)
		_, err = io.CopyN(io.Discard, c, 2*handshakeBytes)
		require.NoError(t, err, "it has proved who it is")
		require.NoError(t, client.Close())
		require.NoError(t, c.Close())
	})
}

func TestHandshakesBeginAsOftenAsTheyMay(t *testing.T) {
	ca := newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a"), GateOptions{}, Port{})
	require.Equal(t, p.begin.Limit(), rate.Limit(p.begin.Burst()))
	require.GreaterOrEqual(t, p.begin.Burst(), handshakesPerCore)
	p.begin.SetLimit(0)
	p.begin.SetBurst(0)
	_, _, err := p.connect(asClient(t, Files{Authority: ca.ca()}))
	require.Error(t, err, "nothing is computed for a client before its turn")
}
