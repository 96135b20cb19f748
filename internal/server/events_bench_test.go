package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/server/http"
	"strandline.dev/test/cost"
)

// BenchmarkEventsToReaders is how long after its acknowledgement a record reaches all readers of server-sent events, as many as
// the HTTP port takes, one record after the other. Readers, client and node share the process and its processors.
// Events end after a minute, so that -benchtime must be short: 200x.
func BenchmarkEventsToReaders(b *testing.B) {
	for _, readers := range []int{1, 100, httpserver.MaxConnections} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			s, err := Start(alone(b, b.TempDir()))
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			c, err := client.Dial([]string{s.GRPC()})
			require.NoError(b, err)
			defer c.Close()
			_, err = c.Admin().CreateLog(b.Context(), "orders", client.LogConfig{})
			require.NoError(b, err)
			producer, err := c.Producer(b.Context(), "orders")
			require.NoError(b, err)
			defer func() { require.NoError(b, producer.Close(context.Background())) }()

			held := cost.Held()
			got := make(chan time.Time, readers)
			for i := range readers {
				conn := followEvents(b, i, s.HTTP(), got)
				defer conn.Close()
			}
			var after []time.Duration
			worked := cost.Worked()
			for b.Loop() {
				_, err := producer.Append(b.Context(), []byte("a record of an ordinary length, which is not long"))
				acknowledged := time.Now()
				require.NoError(b, err)
				for range readers {
					at := <-got
					require.NotZero(b, at, "a reader's events ended")
					after = append(after, max(0, at.Sub(acknowledged)))
				}
			}
			b.StopTimer()
			slices.Sort(after)
			b.ReportMetric(float64(after[len(after)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(after[len(after)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64((cost.Worked()-worked).Microseconds())/float64(len(after)), "processor-us/event")
			b.ReportMetric(float64(cost.Held()-held)/float64(readers)/1024, "KiB/reader")
		})
	}
}

// followEvents connects a reader that sends the time at which it got each event with records.
func followEvents(b *testing.B, i int, address string, got chan<- time.Time) net.Conn {
	b.Helper()
	conn, err := from(i).Dial("tcp", address)
	require.NoError(b, err)
	_, err = fmt.Fprintf(conn, "GET /streams/orders?offset=now&live=sse HTTP/1.1\r\nHost: %s\r\n\r\n", address)
	require.NoError(b, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	for line := ""; !strings.HasPrefix(line, "data:"); { // of the control event: it follows the end
		line, err = lines.ReadString('\n')
		require.NoError(b, err)
	}
	go func() {
		records := false
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				got <- time.Time{}
				return
			}
			if strings.HasPrefix(line, "event: ") {
				records = strings.HasPrefix(line, "event: data")
			} else if records && strings.HasPrefix(line, "data:") {
				records = false // one line for each record of the event
				got <- time.Now()
			}
		}
	}()
	return conn
}
