package embed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
)

// choice is a filter with what it means.
type choice struct {
	filter client.Filter
	keeps  func(client.Record) bool
}

func choices() map[string]choice {
	header := func(r client.Record) string {
		for _, h := range r.Headers {
			if h.Key == "region" {
				return string(h.Value)
			}
		}
		return "none"
	}
	return map[string]choice{
		"key":             {client.Filter{Keys: [][]byte{[]byte("eu/3"), []byte("us/1")}}, func(r client.Record) bool { return string(r.Key) == "eu/3" || string(r.Key) == "us/1" }},
		"prefix":          {client.Filter{KeyPrefixes: [][]byte{[]byte("eu/")}}, func(r client.Record) bool { return bytes.HasPrefix(r.Key, []byte("eu/")) }},
		"header":          {client.Filter{Headers: []client.Header{{Key: "region", Value: []byte("eu")}}}, func(r client.Record) bool { return header(r) == "eu" }},
		"no record":       {client.Filter{Keys: [][]byte{[]byte("nobody")}}, func(client.Record) bool { return false }},
		"every record":    {client.Filter{}, func(client.Record) bool { return true }},
		"where":           {client.Filter{Where: `key.endsWith("7") || "region" in headers && headers.region == "us"`}, func(r client.Record) bool { return strings.HasSuffix(string(r.Key), "7") || header(r) == "us" }},
		"where a key":     {client.Filter{Where: `key in ["eu/3", "us/1"] && value.n >= 0`}, func(r client.Record) bool { return string(r.Key) == "eu/3" || string(r.Key) == "us/1" }},
		"where no key":    {client.Filter{Where: `key == "" || key == "eu/3"`}, func(r client.Record) bool { return len(r.Key) == 0 || string(r.Key) == "eu/3" }},
		"where a field":   {client.Filter{Where: `value.n % 5 == 0`}, func(r client.Record) bool { return r.Offset%5 == 0 }},
		"prefix and rest": {client.Filter{KeyPrefixes: [][]byte{[]byte("us/")}, Where: `offset % 3 == 0`}, func(r client.Record) bool { return bytes.HasPrefix(r.Key, []byte("us/")) && r.Offset%3 == 0 }},
	}
}

// fill appends n random records in batches of all kinds.
func fill(t *testing.T, c *client.Client, log string, random *rand.Rand, n int) {
	for offset := 0; offset < n; {
		p, err := c.Producer(t.Context(), log, client.WithCompression(client.Compression(random.IntN(5))))
		require.NoError(t, err)
		for range 1 + random.IntN(20) {
			var batch []client.Record
			for range 1 + random.IntN(60) {
				r := client.Record{Value: fmt.Appendf(nil, `{"n": %d, "pad": %q}`, offset, strings.Repeat("x", random.IntN(300)))}
				region := []string{"eu", "us"}[random.IntN(2)]
				if random.IntN(8) > 0 {
					r.Key = fmt.Appendf(nil, "%s/%d", region, random.IntN(10))
				}
				if random.IntN(3) > 0 {
					r.Headers = []client.Header{{Key: "trace", Value: []byte{1}}, {Key: "region", Value: []byte(region)}}
				}
				batch = append(batch, r)
				offset++
			}
			first, err := p.AppendBatch(t.Context(), batch)
			require.NoError(t, err)
			require.Equal(t, int64(offset-len(batch)), first)
		}
		require.NoError(t, p.Close(t.Context()))
	}
}

func readAll(t *testing.T, c *client.Client, log string, o ...client.ReaderOption) []client.Record {
	r, err := c.Reader(t.Context(), log, o...)
	require.NoError(t, err)
	defer r.Close()
	all := []client.Record{}
	for {
		next, err := r.Next(t.Context())
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, next.Clone())
	}
}

func TestAFilteredReadIsAPlainReadFilteredAfterwards(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(3))
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	overGRPC, err := cluster.Client(client.WithStreamsOverGRPC(), client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	defer overGRPC.Close()
	for _, durability := range []client.Durability{client.Disk, client.Memory} {
		random := rand.New(rand.NewPCG(14, uint64(durability)))
		log := fmt.Sprint("orders-", durability)
		_, err := c.Admin().CreateLog(t.Context(), log, client.LogConfig{Durability: durability})
		require.NoError(t, err)
		fill(t, c, log, random, 3_000)
		_, _, err = c.Admin().Trim(t.Context(), log, 777, false)
		require.NoError(t, err)
		plain := readAll(t, c, log)
		require.Equal(t, int64(777), plain[0].Offset)
		for name, choice := range choices() {
			t.Run(fmt.Sprint(durability, " ", name), func(t *testing.T) {
				want := slices.DeleteFunc(append([]client.Record{}, plain...), func(r client.Record) bool { return !choice.keeps(r) })
				require.Equal(t, want, readAll(t, c, log, client.WithFilter(choice.filter)))
				require.Equal(t, want, readAll(t, c, log, client.WithFilter(choice.filter), client.WithPreferFollower(), client.WithLinearizable()))

				some := want[:min(len(want), 1+random.IntN(200))]
				if len(some) > 0 {
					require.Equal(t, some, readAll(t, c, log, client.WithFilter(choice.filter), client.WithMaxRecords(int64(len(some)))))
				}
				until := 777 + random.Int64N(2_000)
				part := slices.DeleteFunc(append([]client.Record{}, want...), func(r client.Record) bool { return r.Offset >= until })
				require.Equal(t, part, readAll(t, overGRPC, log, client.WithFilter(choice.filter), client.WithEndOffset(until)))

				stripped := readAll(t, c, log, client.WithFilter(choice.filter), client.WithProjection(client.Projection{DropHeaders: true, JSONFields: []string{"n"}}))
				require.Len(t, stripped, len(want))
				for i, r := range stripped {
					require.Equal(t, client.Record{Offset: want[i].Offset, Timestamp: want[i].Timestamp, Key: want[i].Key, Value: fmt.Appendf(nil, `{"n":%d}`, want[i].Offset)}, r)
				}

				// A new reader that begins wherever another one has stopped misses nothing.
				var pieces []client.Record
				for at := int64(777); at < plain[len(plain)-1].Offset+1; {
					r, err := c.Reader(t.Context(), log, client.WithFilter(choice.filter), client.WithStartOffset(at))
					require.NoError(t, err)
					for range 1 + random.IntN(400) {
						next, err := r.Next(t.Context())
						if err == io.EOF {
							break
						}
						require.NoError(t, err)
						pieces = append(pieces, next.Clone())
					}
					require.Greater(t, r.Offset(), at)
					at = r.Offset()
					require.NoError(t, r.Close())
				}
				require.Equal(t, want, append([]client.Record{}, pieces...))
			})
		}
	}
}

func TestAReaderKnowsHowFarItHasComeWhereNothingIsSelected(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(1))
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	fill(t, c, "orders", rand.New(rand.NewPCG(1, 2)), 500)
	seen := make(chan int64, 1000)
	r, err := c.Reader(t.Context(), "orders", client.WithFollow(), client.WithFilter(client.Filter{Keys: [][]byte{[]byte("new")}}),
		client.WithProgressHandler(func(offset, _ int64) { seen <- offset }))
	require.NoError(t, err)
	defer r.Close()
	info, err := c.Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan client.Record)
	go func() {
		defer close(got)
		if next, err := r.Next(ctx); err == nil {
			got <- next.Clone()
		}
	}()
	for last := int64(0); last < info.End; {
		select {
		case now := <-seen:
			require.Greater(t, now, last)
			last = now
		case <-ctx.Done():
			t.Fatal("no progress")
		}
	}
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.AppendBatch(t.Context(), []client.Record{{Key: []byte("old")}, {Key: []byte("new")}})
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, info.End+1, (<-got).Offset)
}

func TestAnExpressionThatFailsEndsTheReadOrIsSkipped(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(1))
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.AppendBatch(t.Context(), []client.Record{{Value: []byte(`{"n": 1}`)}, {Value: []byte(`text`)}, {Value: []byte(`{"n": 2}`)}, {Value: []byte(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))

	r, err := c.Reader(t.Context(), "orders", client.WithFilter(client.Filter{Where: "value.n > 0"}))
	require.NoError(t, err)
	defer r.Close()
	first, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Zero(t, first.Offset)
	_, err = r.Next(t.Context())
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.ErrFilterFailed.Reason, e.Reason)
	require.EqualValues(t, 1, e.Offset)
	require.False(t, e.Retryable)

	var failed []int64
	all := readAll(t, c, "orders", client.WithFilter(client.Filter{Where: "value.n > 0", OnFailed: func(o int64, why string) {
		require.NotEmpty(t, why)
		failed = append(failed, o)
	}}))
	require.Len(t, all, 2)
	require.Equal(t, []int64{1, 3}, failed)

	r, err = c.Reader(t.Context(), "orders", client.WithFilter(client.Filter{Where: "key.startsWith(3)"}))
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next(t.Context())
	require.ErrorAs(t, err, &e)
	require.Equal(t, client.ErrFilterInvalid.Reason, e.Reason)
	require.Equal(t, [2]int{1, 15}, [2]int{e.Line, e.Column})
}

// A filter is looked at by its reader's goroutine, under no lock that anybody else takes.
func TestAppendsAndOtherReadersDoNotWaitForASlowFilter(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(1))
	defer cluster.Close()
	c := clientOf(t, cluster)
	defer c.Close()
	// In memory: a slow disk is not to hold up what must not wait for the filter.
	_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Durability: client.Memory})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	list := "[" + strings.Repeat("1,", 300) + "1]"
	for range 100 {
		var batch []client.Record
		for range 100 {
			batch = append(batch, client.Record{Value: []byte(`{"all": ` + list + `}`)})
		}
		_, err := p.AppendBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	const slow = 10_000
	looked := make(chan int64, 10_000)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		r, err := c.Reader(ctx, "orders", client.WithFilter(client.Filter{
			Where: "value.all.exists(n, value.all.exists(m, m + n > 2))", OnFailed: func(int64, string) {}, // it costs too much for each record
		}),
			client.WithProgressHandler(func(offset, _ int64) { looked <- offset }))
		if err == nil {
			_, err = r.Next(ctx)
			_ = r.Close()
		}
		ended <- err
	}()
	require.Less(t, <-looked, int64(slow), "it has begun")
	for i := range 20 {
		offset, err := p.Append(t.Context(), []byte("{}"))
		require.NoError(t, err)
		require.EqualValues(t, slow+i, offset)
	}
	require.Len(t, readAll(t, c, "orders", client.WithStartOffset(slow)), 20)
	select {
	case err := <-ended:
		t.Fatalf("the slow filter was done before all of that: %v", err)
	default:
	}
	stop()
	require.Error(t, <-ended)
	require.NoError(t, p.Close(t.Context()))
}
