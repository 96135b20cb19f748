package server

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// BenchmarkFilteredRead reads a log of 2 KiB records in batches of 64, of which a filter
// selects one in a hundred, from one end to the other. MB/s is what is scanned; wire-% is
// how much of that is sent. Compare with the plain read of the same run.
func BenchmarkFilteredRead(b *testing.B) {
	s, err := Start(alone(b, b.TempDir()))
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	c, err := client.Dial([]string{s.GRPC()})
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	_, err = c.Admin().CreateLog(b.Context(), "orders", client.LogConfig{})
	require.NoError(b, err)
	p, err := c.Producer(b.Context(), "orders")
	require.NoError(b, err)
	const batches, each, size = 2000, 64, 2 << 10
	for i := range batches {
		var batch []client.Record
		for j := range each {
			n := (i*each + j) % 100
			batch = append(batch, client.Record{
				Key: fmt.Appendf(nil, "customer-%02d", n), Value: make([]byte, size),
				Headers: []client.Header{{Key: "region", Value: fmt.Appendf(nil, "r%02d", n)}},
			})
		}
		_, err := p.AppendBatch(b.Context(), batch)
		require.NoError(b, err)
	}
	require.NoError(b, p.Close(b.Context()))
	for _, row := range []struct {
		name    string
		records int
		options []client.ReaderOption
	}{
		{"plain", batches * each, nil},
		{"key", batches * each / 100, []client.ReaderOption{client.WithFilter(client.Filter{Keys: [][]byte{[]byte("customer-42")}})}},
		{"header", batches * each / 100, []client.ReaderOption{client.WithFilter(client.Filter{Headers: []client.Header{{Key: "region", Value: []byte("r42")}}})}},
		{"where=key", batches * each / 100, []client.ReaderOption{client.WithFilter(client.Filter{Where: `key == "customer-42"`})}},
		{"where=header", batches * each / 100, []client.ReaderOption{client.WithFilter(client.Filter{Where: `headers.region == "r42"`})}},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(batches * each * size)
			before := metricOf(b, s, "strandline_grpc_read_bytes_total")
			for range b.N {
				r, err := c.Reader(b.Context(), "orders", row.options...)
				require.NoError(b, err)
				n := 0
				for {
					if _, err = r.Next(b.Context()); err != nil {
						break
					}
					n++
				}
				require.True(b, errors.Is(err, io.EOF), err)
				require.Equal(b, row.records, n)
				require.NoError(b, r.Close())
			}
			sent := metricOf(b, s, "strandline_grpc_read_bytes_total") - before
			b.ReportMetric(100*sent/float64(b.N*batches*each*size), "wire-%")
		})
	}
}
