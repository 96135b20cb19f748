package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// requestOf is an append of one batch.
func requestOf(t testing.TB, codec record.Codec, all ...record.Record) *sequence.Append {
	t.Helper()
	var b record.Builder
	for _, r := range all {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(codec)
	require.NoError(t, err)
	return &sequence.Append{ExpectedEnd: sequence.NoExpectation, Batches: []record.Batch{batch}, Records: len(all), Bytes: len(batch)}
}

// letters are so many that compress little.
func letters(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + 2 + random.IntN(50)) // no quotation mark, no backslash
	}
	return string(b)
}

// orderOf is the record at an offset, whose number it has.
func orderOf(random *rand.Rand, o record.Offset) record.Record {
	return record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "customer-%d", o%10), Value: fmt.Appendf(nil, `{"n": %d, "pad": "%s"}`, o, letters(random, 1000))}
}

// scan is a filtered read, of which each chunk is checked: what it says of how far it has come
// is what was looked at.
type scan struct {
	t     *testing.T
	n     *Node
	log   string
	spec  filter.Spec
	keeps func(record.Offset) bool
	r     *reading.Reader
	at    record.Offset
}

// begin starts the read at an offset, or at the start of the log if that is trimmed.
func (s *scan) begin(at, atLeast record.Offset) {
	s.t.Helper()
	for {
		r, err := s.n.Read(s.t.Context(), anyone, s.log, reading.Request{
			From: reading.From{Kind: reading.FromOffset, Offset: at}, Until: reading.NoOffset, Filter: &s.spec, Metered: true,
			Consistency: reading.ConsistencyAtLeast, AtLeast: atLeast,
		})
		if err == nil {
			s.r, s.at = r, at
			return
		}
		trimmed := requireReason(s.t, record.OffsetTrimmed, err)
		require.Greater(s.t, trimmed.Start, at)
		at = trimmed.Start
	}
}

// next takes one chunk.
func (s *scan) next() error {
	s.t.Helper()
	c, err := s.r.Next(s.t.Context())
	if err != nil {
		return err
	}
	defer c.Release()
	require.Equal(s.t, s.at, c.First)
	require.LessOrEqual(s.t, c.Next, c.End)
	var want, got []record.Offset
	for o := c.First; o < c.Next; o++ {
		if s.keeps(o) {
			want = append(want, o)
		}
	}
	for r, err := range c.Records(s.t.Context()) {
		require.NoError(s.t, err)
		require.True(s.t, strings.HasPrefix(string(r.Value), fmt.Sprintf(`{"n": %d,`, r.Offset)), "%d is %.20s", r.Offset, r.Value)
		got = append(got, r.Offset)
	}
	require.Equal(s.t, want, got, "in [%d, %d)", c.First, c.Next)
	s.at = c.Next
	return nil
}

// finish reads to the end, from the new start wherever the old one was trimmed, and returns how
// often that was so.
func (s *scan) finish(end record.Offset) (trims int) {
	s.t.Helper()
	for {
		before, err := s.n.Bounds(anyone, s.log)
		require.NoError(s.t, err)
		err = s.next()
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			s.r.Close()
			require.GreaterOrEqual(s.t, s.at, end)
			return trims
		}
		trimmed := requireReason(s.t, record.OffsetTrimmed, err)
		now, err := s.n.Bounds(anyone, s.log)
		require.NoError(s.t, err)
		require.Greater(s.t, trimmed.Start, s.at)
		require.GreaterOrEqual(s.t, trimmed.Start, before.Start)
		require.LessOrEqual(s.t, trimmed.Start, now.Start)
		require.Contains(s.t, trimmed.Detail, fmt.Sprintf("offset %d is trimmed", s.at), "nothing between was dropped")
		s.r.Close()
		s.begin(trimmed.Start, end)
		trims++
	}
}

func TestAFilteredReadUnderTrimsAndRetentionGetsWhatItSelectsOrTheNewStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	configure := func(log string, config settings.Config) {
		config.Replicas = 3
		c.eventually("a log is configured", func() bool {
			_, err := c.nodes["a"].ConfigureLog(t.Context(), anyone, log, config)
			return err == nil
		})
	}
	trim := func(log string, to record.Offset) {
		c.eventually("a log is trimmed", func() bool {
			_, _, err := c.nodes[c.leader(log)].Trim(t.Context(), anyone, log, to, true)
			return err == nil
		})
	}
	const records, each = 2400, 100 // 2.4 MB: a chunk has a part of it
	for name, shrink := range map[string]func(log string){
		"a trim":            func(log string) { trim(log, 2*records/3) },
		"a fast forward":    func(log string) { trim(log, 10*records) },
		"retention by size": func(log string) { configure(log, settings.Config{RetentionBytes: 256 << 10}) },
		"retention by age":  func(log string) { configure(log, settings.Config{Retention: time.Second}) },
	} {
		t.Run(name, func(t *testing.T) {
			log, random := strings.ReplaceAll(name, " ", "-"), rand.New(rand.NewPCG(14, 1))
			_, err := c.createLog("a", log, settings.Config{})
			require.NoError(t, err)
			end := record.Offset(0)
			fill := func(more record.Offset) {
				for until := end + more; end < until; {
					var batch []record.Record
					for i := range record.Offset(each) {
						batch = append(batch, orderOf(random, end+i))
					}
					codec := record.Codec(uint64(end/each) % uint64(record.Zstd+1))
					a := c.appendOne(log, func() *sequence.Append { return requestOf(t, codec, batch...) })
					require.Equal(t, end, a.First.First)
					end += each
				}
			}
			fill(records)
			leader := c.leader(log)
			tenth := func(o record.Offset) bool { return o%10 == 3 }
			var scans []*scan
			for _, node := range []string{leader, c.follower(log)} {
				for where, spec := range map[string]filter.Spec{
					"a key":               {Keys: [][]byte{[]byte("customer-3")}},
					"a key of expression": {Where: `key == "customer-3" || key == "nobody"`},
					"an expression":       {Where: `value.n % 10 == 3`},
				} {
					s := &scan{t: t, n: c.nodes[node], log: log, spec: spec, keeps: tenth}
					s.begin(0, end)
					require.NoError(t, s.next(), where)
					require.Less(t, s.at, record.Offset(2*records/3), where)
					scans = append(scans, s)
				}
			}
			nobody := &scan{t: t, n: c.nodes[leader], log: log, spec: filter.Spec{Where: `key == "nobody"`}, keeps: func(record.Offset) bool { return false }}
			nobody.begin(0, end)
			shrink(log)
			for _, s := range scans {
				c.eventually("the log has shrunk", func() bool {
					b, err := s.n.Bounds(anyone, log)
					return err == nil && b.Start > s.at
				})
			}
			configure(log, settings.Config{})
			bounds, err := c.nodes[c.leader(log)].Bounds(anyone, log)
			require.NoError(t, err)
			end = bounds.End
			fill(each)
			for _, s := range scans {
				require.Positive(t, s.finish(end))
			}
			nobody.finish(end)
		})
	}
}

func TestAFilteredReadEndsWithItsLogAndNeverReadsTheNextOfItsName(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	random := rand.New(rand.NewPCG(14, 2))
	fill := func(number record.Offset) {
		for first := record.Offset(0); first < 2000; first += 100 {
			var batch []record.Record
			for o := first; o < first+100; o++ {
				batch = append(batch, orderOf(random, number+o))
			}
			require.Nil(t, appendTo(t, n, "orders", requestOf(t, record.LZ4, batch...)).Refusal)
		}
	}
	create(t, n, "orders", settings.Config{})
	fill(0)
	var begun []*reading.Reader
	for _, where := range []string{`key == "customer-3"`, `value.n % 10 == 3`} {
		r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Follow: true, Metered: true, Filter: &filter.Spec{Where: where}})
		require.NoError(t, err)
		defer r.Close()
		c, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Less(t, c.Next, record.Offset(2000))
		c.Release()
		begun = append(begun, r)
	}
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "orders"))
	create(t, n, "orders", settings.Config{})
	fill(1_000_000)
	for _, r := range begun {
		c, err := r.Next(t.Context())
		for ; err == nil; c, err = r.Next(t.Context()) { // the old one may still be on its way out
			for got, err := range c.Records(t.Context()) {
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(string(got.Value), fmt.Sprintf(`{"n": %d,`, got.Offset)))
			}
			c.Release()
		}
		requireReason(t, record.ShuttingDown, err)
	}
}

func TestARecordThatAnExpressionFailsOnEndsAlsoAReadThatFollows(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", `{"n": 1}`, `{"n": 0}`, "text", `{"n": 2}`)
	r, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Follow: true, Filter: &filter.Spec{Where: "value.n > 0"}})
	require.NoError(t, err)
	defer r.Close()
	c, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{`0:{"n": 1}`}, textsOf(t, c))
	require.EqualValues(t, 2, c.Next, "what is before it was looked at")
	for range 2 {
		_, err = r.Next(t.Context())
		require.EqualValues(t, 2, requireReason(t, record.FilterFailed, err).At)
	}

	skips, err := n.Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset, Follow: true, Filter: &filter.Spec{Where: "value.n > 0", SkipFailed: true}})
	require.NoError(t, err)
	defer skips.Close()
	c, err = skips.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{`0:{"n": 1}`, `3:{"n": 2}`}, textsOf(t, c))
	require.Len(t, c.Failed, 1)
	require.EqualValues(t, 2, c.Failed[0].Offset)
	mustAppend(t, n, "orders", "text", `{"n": 3}`)
	c, err = skips.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{`5:{"n": 3}`}, textsOf(t, c))
	require.EqualValues(t, 4, c.Failed[0].Offset)
}

// selected reads a log to its end: what an expression selects, and what it fails on.
func selected(t *testing.T, n *Node, log, where string) (found []string, failed []record.Offset) {
	t.Helper()
	r, err := n.Read(t.Context(), anyone, log, reading.Request{Until: reading.NoOffset, Filter: &filter.Spec{Where: where, SkipFailed: true}})
	require.NoError(t, err)
	defer r.Close()
	for {
		c, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return found, failed
		}
		require.NoError(t, err)
		found = append(found, textsOf(t, c)...)
		for _, f := range c.Failed {
			failed = append(failed, f.Offset)
		}
	}
}

// An expression of which keys can be derived skips segments. "or false" keeps it from that.
func TestAReadThatSkipsSegmentsGivesWhatTheOneThatReadsThemGives(t *testing.T) {
	t.Parallel()
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), SegmentBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	create(t, n, "orders", settings.Config{})
	random := rand.New(rand.NewPCG(14, 4))
	for batch := range 48 {
		var records []record.Record
		for range 1 + random.IntN(40) {
			r := record.Record{Timestamp: 1, Value: fmt.Appendf(nil, `{"n": %d, "pad": "%s"}`, random.IntN(4), letters(random, 500))}
			switch random.IntN(8) {
			case 0: // none
			case 1:
				r.Key = []byte{}
			default:
				r.Key = fmt.Appendf(nil, "%c%d", 'a'+batch/8, random.IntN(20)) // they rise with the log
			}
			if random.IntN(4) == 0 {
				r.Value = []byte("text " + letters(random, 500))
			}
			records = append(records, r)
		}
		require.Nil(t, appendTo(t, n, "orders", requestOf(t, record.Codec(random.IntN(5)), records...)).Refusal)
	}
	skipped := func() float64 { return gathered(t, n.Metrics())["skipped_segments_total"] }
	require.Eventually(t, func() bool {
		before := skipped()
		selected(t, n, "orders", `key == "nobody"`)
		return skipped()-before >= 5
	}, time.Minute, 10*time.Millisecond, "summaries are made")

	leaf := func() string {
		key := fmt.Sprintf("%c%d", 'a'+random.IntN(7), random.IntN(20))
		return []string{
			`key == "` + key + `"`, `key == "` + key + `"`, `key in ["` + key + `", "c3"]`, `key.startsWith("` + key[:1] + `")`, `key.startsWith("` + key + `")`,
			`value.n > 1`, `value.none == 1`, `offset % 3 == 0`, `key == ""`, `!(key == "` + key + `")`,
		}[random.IntN(10)]
	}
	total := 0
	for range 80 {
		where := leaf()
		for range random.IntN(4) {
			where = fmt.Sprintf("(%s) %s (%s)", where, []string{"&&", "||", "&&"}[random.IntN(3)], leaf())
		}
		found, failed := selected(t, n, "orders", where)
		before := skipped()
		wantFound, wantFailed := selected(t, n, "orders", "("+where+") || false")
		require.Equal(t, before, skipped(), where)
		require.Equal(t, wantFound, found, where)
		require.Equal(t, wantFailed, failed, where)
		total += len(found)
	}
	require.Positive(t, total)
	before := skipped()
	found, _ := selected(t, n, "orders", `value.n >= 0 && (key == "d3" || key in ["d4", "d5"])`)
	require.NotEmpty(t, found)
	require.Greater(t, skipped(), before+2)
}
