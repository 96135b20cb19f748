package server

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"strandline.dev/client"
	"strandline.dev/internal/transport/lean"
)

// A caller that asks without end for what it is refused gets its refusals at a finite rate on every port, also from
// one connection after the other, and so does one that asks without end for what everybody may.
func TestRefusalsComeAtAFiniteRate(t *testing.T) {
	ports := map[string]func(t *testing.T, g *guarded) func(){
		"gRPC, anonymous": func(t *testing.T, g *guarded) func() {
			headers := block("/strandline.v1.LogService/GetInfo", "", 0)
			return func() { g.bare(t).call(headers, prefixed(nil)) }
		},
		"gRPC, without the right": func(t *testing.T, g *guarded) func() {
			headers := block("/strandline.v1.LogService/GetInfo", g.token, 0)
			b := g.bare(t)
			return func() { b.call(headers, prefixed([]byte("\x0a\x06orders"))) }
		},
		"an append stream, without the right": func(t *testing.T, g *guarded) func() {
			c, err := client.Dial([]string{g.GRPC()}, client.WithToken(g.token))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return func() {
				p, err := c.Producer(t.Context(), "orders")
				if err == nil {
					_, err = p.Append(t.Context(), nil)
				}
				require.ErrorContains(t, err, "DENIED")
			}
		},
		"a stream without HTTP/2": func(t *testing.T, g *guarded) func() {
			call := "/strandline.v1.LogService/Append"
			sent := append([]byte(lean.Magic), append(binary.LittleEndian.AppendUint32(nil, uint32(len(call))), 1)...)
			sent = append(sent, call...)
			return func() { said(t, g.GRPC(), sent) }
		},
		"Kafka, anonymous": func(t *testing.T, g *guarded) func() {
			sent := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 1)
			return func() { said(t, g.Kafka(), sent) }
		},
		"Kafka, without the right": func(t *testing.T, g *guarded) func() {
			c, err := kgo.NewClient(kgo.SeedBrokers(g.Kafka()), kgo.SASL(scram.Auth{User: "carol", Pass: g.password}.AsSha256Mechanism()))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			q := kmsg.NewPtrListOffsetsRequest()
			q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}
			b := c.Broker(1)
			return func() { _, _ = b.Request(t.Context(), q) }
		},
		"HTTP, refused": func(t *testing.T, g *guarded) func() {
			return func() { said(t, g.HTTP(), []byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")) }
		},
		"HTTP, for everybody": func(t *testing.T, g *guarded) func() {
			return func() { said(t, g.HTTP(), []byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")) }
		},
		"HTTP, a token of none": func(t *testing.T, g *guarded) func() {
			return func() {
				said(t, g.HTTP(), []byte("GET /livez HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"))
			}
		},
	}
	for port, prepare := range ports {
		t.Run(port, func(t *testing.T) {
			t.Parallel()
			ask := prepare(t, startGuardedAt(t, 0))
			began := time.Now()
			for range 150 {
				ask()
			}
			require.Greater(t, time.Since(began), 300*time.Millisecond)
		})
	}
}

// said sends something and waits until the connection ends.
func said(t *testing.T, address string, sent []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = conn.Write(sent) // it may be refused before all is sent
	_, _ = io.Copy(io.Discard, conn)
}
