package server

import (
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/transport/secure"
)

// halfOpen is how many handshakes a flood begins and does not continue.
const halfOpen = 2000

// BenchmarkHandshakeBesideAFlood is the time of an honest client's connection, while
// others connect all the time and say nothing, and without them.
func BenchmarkHandshakeBesideAFlood(b *testing.B) {
	for name, clients := range map[string]int{"quiet": 0, "flood": halfOpen} {
		b.Run(name, func(b *testing.B) {
			a := newAuthority(b)
			o := alone(b, b.TempDir())
			o.Node.Name, o.Credentials = "a", a.credentials("a")
			s, err := Start(o)
			require.NoError(b, err)
			honest, err := secure.OpenClient(a.user("alice"))
			require.NoError(b, err)
			silent := make([]net.Conn, clients)
			connect := func(i int) {
				if silent[i] != nil {
					_ = silent[i].Close()
				}
				silent[i], err = from(i).Dial("tcp", s.Kafka())
				require.NoError(b, err)
			}
			for i := range silent {
				connect(i)
			}
			var times []time.Duration
			next := 0
			for b.Loop() {
				for range min(clients, 20) {
					connect(next % clients)
					next++
				}
				began := time.Now()
				conn, err := tls.Dial("tcp", s.Kafka(), honest.Client("127.0.0.1"))
				require.NoError(b, err)
				times = append(times, time.Since(began))
				require.NoError(b, conn.Close())
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
			for _, c := range silent {
				_ = c.Close()
			}
			require.NoError(b, s.Close())
		})
	}
}
