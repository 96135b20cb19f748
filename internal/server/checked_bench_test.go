package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cost"
)

// BenchmarkCheckedAppends appends records of 200 bytes on one connection, each in a request of its own: without a
// check, with one that holds, and with one that a record matches. With in-flight=1 the median is how long
// a caller waits for the answer. Client and server share the process and the machine; us/append is what processors
// work for both.
func BenchmarkCheckedAppends(b *testing.B) {
	s, err := Start(alone(b, b.TempDir()))
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	c, err := client.Dial([]string{s.GRPC()})
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	_, err = c.Admin().CreateLog(b.Context(), "orders", client.LogConfig{RetentionBytes: 256 << 20})
	require.NoError(b, err)
	for _, inFlight := range []int{1024, 1} {
		p, err := c.Producer(b.Context(), "orders", client.WithoutSession(), client.WithMaxInFlightRequests(inFlight))
		require.NoError(b, err)
		for _, what := range []string{"unchecked", "holds", "conflict"} {
			b.Run(fmt.Sprintf("in-flight=%d/%s", inFlight, what), func(b *testing.B) {
				benchmarkChecked(b, p, inFlight, what)
			})
		}
		require.NoError(b, p.Close(b.Context()))
	}
}

func benchmarkChecked(b *testing.B, p *client.Producer, inFlight int, what string) {
	value := make([]byte, 200)
	taken, err := p.AppendBatch(b.Context(), []client.Record{{Key: []byte("taken"), Value: value}})
	require.NoError(b, err)
	times := make([]time.Duration, b.N)
	before := cost.Worked()
	b.ResetTimer()
	var working sync.WaitGroup
	for w := range inFlight {
		working.Go(func() {
			key := fmt.Appendf(nil, "account/%04d", w)
			records := []client.Record{{Key: key, Value: value}}
			since := taken
			for i := w; i < b.N; i += inFlight {
				check := client.Check{Since: since, Keys: [][]byte{key}}
				if what == "conflict" {
					check = client.Check{Since: taken, Keys: [][]byte{[]byte("taken")}}
				}
				var options []client.AppendOption
				if what != "unchecked" {
					options = append(options, client.WithCheck(check))
				}
				began := time.Now()
				first, err := p.AppendBatch(b.Context(), records, options...)
				times[i] = time.Since(began)
				since = first + 1
				if (err != nil) != (what == "conflict") {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	b.ReportMetric(float64((cost.Worked()-before).Nanoseconds())/1000/float64(b.N), "us/append")
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "median-us")
}
