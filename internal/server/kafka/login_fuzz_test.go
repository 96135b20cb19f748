package kafkaserver

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
)

// said is a connection whose client has sent everything that it will.
type said struct {
	net.Conn
	from *bytes.Reader
}

func (c *said) Read(b []byte) (int, error)     { return c.from.Read(b) }
func (*said) Write(b []byte) (int, error)      { return len(b), nil }
func (*said) Close() error                     { return nil }
func (*said) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (*said) SetReadDeadline(time.Time) error  { return nil }
func (*said) SetWriteDeadline(time.Time) error { return nil }

// FuzzBeforeLogin: whatever a client sends that knows no password, it is nobody at the end,
// and no more of it is read than may be.
func FuzzBeforeLogin(f *testing.F) {
	quiet := slog.New(slog.DiscardHandler)
	n, err := node.Open(settings.Options{DataDir: f.TempDir(), FormAlone: true, GRPCAddress: "self", Logger: quiet})
	require.NoError(f, err)
	g := guard.New(n, guard.Options{})
	_, _, err = g.PutUser(f.Context(), verbs.Caller{}, "bob", "of-bob-alone")
	require.NoError(f, err)
	require.NoError(f, g.EnforceRights(f.Context(), verbs.Caller{}, true, "user/bob"))
	s := New(g, Options{Logger: quiet})
	f.Cleanup(func() {
		s.Stop(context.Background())
		require.NoError(f, n.Close(context.Background()))
	})

	// Seeds are logins up to each of their messages.
	frame := func(q kmsg.Request) []byte {
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz")).AppendRequest(nil, q, 1)
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "fuzz", "1"
	for _, mechanism := range append([]string{"GSSAPI", ""}, guard.Mechanisms...) {
		for version := range int16(2) {
			handshake, first, second := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrSASLAuthenticateRequest()
			handshake.Version, handshake.Mechanism = version, mechanism
			first.Version, second.Version = 2*version, 2*version
			first.SASLAuthBytes, second.SASLAuthBytes = []byte("n,,n=bob,r=nonce"), []byte("c=biws,r=nonce,p=AAAA")
			login := bytes.Join([][]byte{frame(versions), frame(handshake), frame(first), frame(second), frame(kmsg.NewPtrMetadataRequest())}, nil)
			f.Add(login)
			f.Add(login[:len(login)/2])
			f.Add(append(frame(first), login...))
		}
	}
	f.Add(bytes.Repeat(frame(versions), proveBytes/len(frame(versions))+1))
	f.Add(frame(kmsg.NewPtrMetadataRequest()))
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn := &said{from: bytes.NewReader(sent)}
		c := newConnection(s, conn)
		c.serve()
		require.Empty(t, c.holder.Load().Principal)
		require.True(t, c.mustProve())
		require.LessOrEqual(t, len(sent)-conn.from.Len(), proveBytes+readBuffer)
	})
}
