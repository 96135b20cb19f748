package cli

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tlsPort is a proxy in front of a Kafka port that is known only later, and ends the
// encryption. authority is the file with the certificate to trust.
type tlsPort struct {
	listener  net.Listener
	authority string
	serving   sync.WaitGroup
}

func newTLSPort(t *testing.T) *tlsPort {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer certified.Close()
	d := &tlsPort{authority: filepath.Join(t.TempDir(), "ca.pem")}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	require.NoError(t, os.WriteFile(d.authority, text, 0o600))
	var err error
	d.listener, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = d.listener.Close()
		d.serving.Wait()
	})
	return d
}

// leadTo begins to pass connections on, each until one of its ends closes it.
func (d *tlsPort) leadTo(address string) {
	d.serving.Go(func() {
		for {
			client, err := d.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			d.serving.Go(func() { pass(server, client) })
			d.serving.Go(func() { pass(client, server) })
		}
	})
}

// serveTLS is a node whose Kafka clients all come through a tlsPort.
func serveTLS(t *testing.T) (*process, *tlsPort) {
	t.Helper()
	port := newTLSPort(t)
	p := startNode(t, t.TempDir(), "--kafka-advertise", port.listener.Addr().String())
	port.leadTo(p.kafka)
	return p, port
}

func (d *tlsPort) target(client string) string {
	return "kafka://" + d.listener.Addr().String() + "?client=" + client
}

func TestBenchPipelineCountsWhatIsEncrypted(t *testing.T) {
	t.Parallel()
	p, port := serveTLS(t)
	for _, client := range []string{"franz", "sarama"} {
		all := rows(t, p.must("", "bench", "pipeline", "--json", "--data", p.data, "--records", "3000", "--value", "1000",
			"--round-trip", "2ms", "--in-flight", "2", "--flush-bytes", "20KB", "--warmup", "0s", "--duration", "1m",
			"--once", "no", "--target", port.target(client), "--tls", "--tls-ca", port.authority))
		row := all[len(all)-1]
		require.Equal(t, "pipeline", row["benchmark"])
		require.Equal(t, "read back", row["checked"])
		require.Equal(t, "yes", row["limit_kept"])
		for _, figure := range []string{"most_on_wire", "request_p50_ms", "of_window"} {
			require.Positive(t, row[figure], "%s: %s", client, figure)
		}
		require.GreaterOrEqual(t, row["request_p50_ms"], 2.0, "the link is slow for what is encrypted, too")
	}
}

func TestBenchAppendsAndReadsWhatIsEncrypted(t *testing.T) {
	t.Parallel()
	p, port := serveTLS(t)
	encrypted := []string{"--json", "--data", p.data, "--tls", "--tls-ca", port.authority}
	for _, client := range []string{"franz", "sarama"} {
		patiently(t, func(duration string) bool {
			all := rows(t, p.must("", append([]string{"bench", "appends", "--connections", "2", "--workers", "4",
				"--warmup", "0s", "--duration", duration, "--target", port.target(client)}, encrypted...)...))
			require.Equal(t, map[string]bool{"appends": true}, figures(all[len(all)-1:], "benchmark"), client)
			return positive(all)
		})
	}
	for _, client := range []string{"franz", "sarama", "fetch"} {
		all := rows(t, p.must("", append([]string{"bench", "read", "--size", "1MiB", "--readers", "1",
			"--target", port.target(client)}, encrypted...)...))
		require.Equal(t, map[string]bool{"read": true}, figures(all, "benchmark"), client)
	}
}
