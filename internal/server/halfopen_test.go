package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
	httpserver "strandline.dev/internal/server/http"
	"strandline.dev/internal/transport/secure"
)

// Connections begin TLS on a port and say nothing more, most of them in the middle of a record, and one in ten
// after a whole ClientHello, for which the node has computed its answer. There are more of them than the port keeps.
// An honest client is served meanwhile because the oldest make way: their time, an hour here, does not end.
func TestHandshakesThatStopKeepNobodyOutOfAnyPort(t *testing.T) {
	t.Parallel()
	const (
		handshakes = 1024 // that a port keeps
		patience   = time.Minute
	)
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials, o.Whence, o.handshake = "a", a.credentials("a"), elsewhere, time.Hour
	node, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	f := a.user("alice")
	shown, err := secure.OpenClient(f)
	require.NoError(t, err)
	hello, address := clientHello(t), byte(0)

	for _, port := range []struct {
		name, address string
		addresses     int // from which they come, which the honest client does not have
		connections   int // from each
		honest        func(ctx context.Context) error
	}{
		{"gRPC", node.GRPC(), 1, handshakes + 100, func(ctx context.Context) error {
			c, err := client.Dial([]string{node.GRPC()}, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(0))
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Admin().ListLogs(ctx, false)
			return err
		}},
		{"Kafka", node.Kafka(), 1, handshakes + 100, func(ctx context.Context) error {
			c, err := kgo.NewClient(kgo.SeedBrokers(node.Kafka()), kgo.DialTLSConfig(shown.Client("127.0.0.1")), kgo.RequestRetries(0))
			require.NoError(t, err)
			defer c.Close()
			return c.Ping(ctx)
		}},
		{"HTTP", node.HTTP(), httpserver.MaxConnections / httpserver.MaxConnectionsOfAddress, httpserver.MaxConnectionsOfAddress, func(context.Context) error {
			_, _, err := a.get(t, node.HTTP(), "/livez", secure.Files{Authority: f.Authority})
			return err
		}},
	} {
		t.Run(port.name, func(t *testing.T) {
			var oldest []net.Conn // of each address
			for range port.addresses {
				address++
				dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, address)}}
				for i := range port.connections {
					c, err := dialer.DialContext(t.Context(), "tcp", port.address)
					require.NoError(t, err)
					defer c.Close()
					says := hello[:len(hello)/2]
					if i%10 == 9 {
						says = hello
					}
					_, err = c.Write(says)
					require.NoError(t, err)
					if i == 0 {
						oldest = append(oldest, c)
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for range 3 {
				require.NoError(t, port.honest(ctx))
			}
			requireOneCloses(t, time.Now().Add(patience), "the oldest of an address makes way", oldest...)
		})
	}
}

// clientHello is the first record of a TLS client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	began := make(chan error, 1)
	go func() { began <- tls.Client(client, &tls.Config{ServerName: "a"}).Handshake() }()
	head := make([]byte, 5) // type, version, length
	_, err := io.ReadFull(server, head)
	require.NoError(t, err)
	hello := append(head, make([]byte, binary.BigEndian.Uint16(head[3:]))...)
	_, err = io.ReadFull(server, hello[len(head):])
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.Error(t, <-began)
	return hello
}
