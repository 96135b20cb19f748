package server

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// keysIn makes a log of so many segments of a size, each of records of 2 KiB in batches of 64. Each
// segment has the key "often" once, and that in the middle the key "rare", too.
func keysIn(t testing.TB, s *Server, segments, size int) (rare int64) {
	t.Helper()
	c, err := client.Dial([]string{s.GRPC()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	const each, bytes = 64, 2 << 10
	batches := size / (each * bytes)
	for i := range segments * batches {
		var batch []client.Record
		for j := range each {
			batch = append(batch, client.Record{Key: fmt.Appendf(nil, "customer-%d", i*each+j), Value: make([]byte, bytes)})
		}
		if i%batches == 0 {
			batch[0].Key = []byte("often")
		}
		if i == segments/2*batches {
			rare = int64(i*each + 1)
			batch[1].Key = []byte("rare")
		}
		_, err := p.AppendBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))
	return rare
}

// offsetsOf reads a log to its end.
func offsetsOf(ctx context.Context, t testing.TB, c *client.Client, o ...client.ReaderOption) (offsets []int64, next int64) {
	t.Helper()
	r, err := c.Reader(ctx, "orders", o...)
	require.NoError(t, err)
	defer r.Close()
	for {
		record, err := r.Next(ctx)
		if err == io.EOF {
			return offsets, r.Offset()
		}
		require.NoError(t, err)
		offsets = append(offsets, record.Offset)
	}
}

func ofKeys(keys ...string) client.ReaderOption {
	var f client.Filter
	for _, k := range keys {
		f.Keys = append(f.Keys, []byte(k))
	}
	return client.WithFilter(f)
}

func TestAReadByKeySkipsTheSegmentsThatDoNotHaveIt(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	start := func() (*Server, *client.Client) {
		o := alone(t, directory)
		o.Node.SegmentBytes = 256 << 10
		s, err := Start(o)
		require.NoError(t, err)
		c, err := client.Dial([]string{s.GRPC()})
		require.NoError(t, err)
		return s, c
	}
	s, c := start()
	const segments = 12
	rare := keysIn(t, s, segments, 256<<10)
	info, err := c.Admin().Info(t.Context(), "orders")
	require.NoError(t, err)

	skipped := func() float64 { return metricOf(t, s, "strandline_skipped_segments_total") }
	read := func() {
		t.Helper()
		got, next := offsetsOf(t.Context(), t, c, ofKeys("rare"))
		require.Equal(t, []int64{rare}, got)
		require.Equal(t, info.End, next)
	}
	read()
	// Summaries are made after the first read by key, or when a segment is sealed, and that takes a moment.
	awaitSkips := func(segments float64) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); ; {
			before := skipped()
			read()
			if skipped()-before >= segments {
				return
			}
			require.True(t, time.Now().Before(deadline), "%v segments were skipped, not %v", skipped()-before, segments)
		}
	}
	awaitSkips(segments - 2)
	for name, option := range map[string]client.ReaderOption{
		"a key that is nowhere":    ofKeys("nobody"),
		"a prefix that no one has": client.WithFilter(client.Filter{KeyPrefixes: [][]byte{[]byte("zzz")}}),
		"an expression on the key": client.WithFilter(client.Filter{Where: `size > 0 && (key == "nobody" || key.startsWith("zzz"))`}),
	} {
		before := skipped()
		got, next := offsetsOf(t.Context(), t, c, option)
		require.Empty(t, got, name)
		require.Equal(t, info.End, next, name)
		require.Greater(t, skipped(), before, name)
	}
	before := skipped()
	got, _ := offsetsOf(t.Context(), t, c, ofKeys("often"))
	require.Len(t, got, segments)
	got, next := offsetsOf(t.Context(), t, c, ofKeys("rare"), client.WithEndOffset(rare))
	require.Empty(t, got)
	require.Equal(t, rare, next, "it goes no further than it was asked to")
	require.Greater(t, skipped(), before)

	// What is sealed later is summarized too, and summaries outlast a restart.
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for range 10 {
		_, err := p.AppendBatch(t.Context(), slices.Repeat([]client.Record{{Key: []byte("later"), Value: make([]byte, 2<<10)}}, 64))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))
	info, err = c.Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	awaitSkips(segments + 2)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	s, c = start()
	read()
	require.GreaterOrEqual(t, skipped(), float64(segments))

	// Where a segment in the middle has gone with those before it, a read by key goes on.
	_, _, err = c.Admin().Trim(t.Context(), "orders", rare+1, false)
	require.NoError(t, err)
	got, next = offsetsOf(t.Context(), t, c, ofKeys("rare"))
	require.Empty(t, got)
	require.Equal(t, info.End, next)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
}

// BenchmarkReadOfOneKey reads a key of which one of 100 segments has one record: with key summaries,
// and, as "scan", together with one that each segment has once, so that all have to be read.
func BenchmarkReadOfOneKey(b *testing.B) {
	o := alone(b, b.TempDir())
	o.Node.SegmentBytes = 4 << 20
	s, err := Start(o)
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	const segments = 100
	rare := keysIn(b, s, segments, 4<<20)
	c, err := client.Dial([]string{s.GRPC()})
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	skipped := func() float64 { return metricOf(b, s, "strandline_skipped_segments_total") }
	for ready := false; !ready; {
		before := skipped()
		got, _ := offsetsOf(b.Context(), b, c, ofKeys("rare"))
		require.Equal(b, []int64{rare}, got)
		ready = skipped()-before >= segments-2
	}
	for _, row := range []struct {
		name    string
		keys    []string
		records int
	}{{"scan", []string{"rare", "often"}, segments + 1}, {"summaries", []string{"rare"}, 1}} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(segments * 4 << 20)
			before := skipped()
			for range b.N {
				got, _ := offsetsOf(b.Context(), b, c, ofKeys(row.keys...))
				require.Len(b, got, row.records)
			}
			b.ReportMetric((skipped()-before)/float64(b.N), "skipped/op")
		})
	}
}
