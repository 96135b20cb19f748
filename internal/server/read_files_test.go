package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/disk/faultdisk"
)

// Records that were read and verified once are sent from their files the next time, and
// are the same; where the disk's files are none of the system's, they are read.
func TestRecordsThatWereVerifiedAreSentFromTheirFiles(t *testing.T) {
	t.Parallel()
	const system = "the system's files"
	for _, name := range []string{system, "files that the system cannot send"} {
		t.Run(name, func(t *testing.T) {
			o := alone(t, t.TempDir())
			disk := faultdisk.New(1)
			if name != system {
				o.Node.DataDir, o.Node.Disk, o.Node.MinFree = "data", disk, -1
			}
			s, err := Start(o)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			c, err := client.Dial([]string{s.GRPC()})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
			require.NoError(t, err)
			p, err := c.Producer(t.Context(), "orders")
			require.NoError(t, err)
			const records = 260 // more than a log keeps in memory
			value := func(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, 100_000+i) }
			for i := range records {
				_, err := p.Append(t.Context(), value(i))
				require.NoError(t, err)
			}
			require.NoError(t, p.Close(t.Context()))

			read := func(options ...client.ReaderOption) {
				r, err := c.Reader(t.Context(), "orders", append(options, client.WithStartOffset(3))...)
				require.NoError(t, err)
				for i := 3; i < records; i++ {
					got, err := r.Next(t.Context())
					require.NoError(t, err)
					require.EqualValues(t, i, got.Offset)
					require.Equal(t, value(i), got.Value)
				}
				_, err = r.Next(t.Context())
				require.True(t, errors.Is(err, io.EOF), err)
				require.NoError(t, r.Close())
			}
			read()
			before := metricOf(t, s, "strandline_grpc_read_from_files_bytes_total")
			read()
			require.Greater(t, metricOf(t, s, "strandline_grpc_read_from_files_bytes_total")-before, float64(5<<20))
			before = metricOf(t, s, "strandline_grpc_read_from_files_bytes_total")
			read(client.WithMaxRecords(records))
			require.Equal(t, before, metricOf(t, s, "strandline_grpc_read_from_files_bytes_total"), "a limit is within a file's batches")
			if name == system {
				return
			}
			first := ""
			for _, file := range disk.Names() {
				if first == "" && strings.HasPrefix(file, "data/logs/1/") && strings.HasSuffix(file, ".seg") && len(disk.Content(file)) > 1<<20 {
					first = file
				}
			}
			disk.FlipBit(first, 1<<20)
			r, err := c.Reader(t.Context(), "orders")
			require.NoError(t, err)
			for err == nil {
				var got client.Record
				if got, err = r.Next(t.Context()); err == nil {
					require.Equal(t, value(int(got.Offset)), got.Value)
				}
			}
			require.ErrorIs(t, err, client.ErrCorrupt)
			require.ErrorContains(t, err, first, "the server has looked again")
			require.NoError(t, r.Close())
		})
	}
}

func metricOf(t testing.TB, s *Server, name string) float64 {
	t.Helper()
	answer, err := http.Get("http://" + s.HTTP() + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	require.NotNil(t, found)
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return value
}
