package node

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// BenchmarkAppend is an append of one record to a log in memory on a node that is
// alone, from the verb to its answer: what the node and the replica take without a
// disk.
func BenchmarkAppend(b *testing.B) {
	n, err := Open(settings.Options{FormAlone: true, DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Close(b.Context())) }()
	_, err = n.CreateLog(b.Context(), anyone, "orders", settings.Config{Durability: settings.Memory})
	require.NoError(b, err)
	a := request(b, "a record")
	answers := make(chan sequence.Answer, 1)
	done := func(a sequence.Answer) { answers <- a }
	b.ReportAllocs()
	for b.Loop() {
		n.Append(anyone, "orders", a, nil, done)
		if answer := <-answers; answer.Refusal != nil {
			b.Fatal(answer.Refusal)
		}
	}
}

// BenchmarkMetrics is an append of one record to a replica in memory, which is an entry of
// its own: with nothing counted, and with all that a node counts of it.
//
//	go test -run - -bench Metrics -count 6 ./internal/node
func BenchmarkMetrics(b *testing.B) {
	for _, counted := range []bool{false, true} {
		b.Run(fmt.Sprint("counted=", counted), func(b *testing.B) {
			m := metrics.New("")
			o := runtime.Options{ID: 1, Logger: slog.New(slog.DiscardHandler)}
			if counted {
				o.Committed = m.Committed
				o.Wrote = func(bytes, entries int, took time.Duration) { m.Wrote("orders", bytes, entries, took) }
			}
			begin, err := core.Bootstrap([]uint64{o.ID})
			require.NoError(b, err)
			o.Log, o.HardState = memory.New(begin), begin.HardState
			r, err := runtime.Start(o)
			require.NoError(b, err)
			defer func() { require.NoError(b, r.Close(b.Context())) }()
			require.NoError(b, r.AwaitLeaderReady(b.Context()))
			a := request(b, "a record")
			answers := make(chan sequence.Answer, 1)
			answered := func(a sequence.Answer) { answers <- a }
			for b.Loop() {
				done := answered
				if counted {
					done = m.MeasuredAppend("orders", a, answered)
				}
				r.Append(&core.Request{Append: a, Done: done})
				if answer := <-answers; answer.Refusal != nil {
					b.Fatal(answer.Refusal)
				}
			}
		})
	}
	times := sequence.Times{Queue: time.Microsecond, Batch: time.Microsecond, Write: time.Millisecond, Sync: time.Millisecond, Replicas: time.Millisecond}
	b.Run("counting alone", func(b *testing.B) {
		m, a := metrics.New(""), request(b, "a record")
		for b.Loop() {
			done := m.MeasuredAppend("orders", a, func(sequence.Answer) {})
			m.Committed(times)
			m.Wrote("orders", 100, 1, time.Millisecond)
			done(sequence.Answer{})
		}
	})
	b.Run("stages alone", func(b *testing.B) {
		m := metrics.New("")
		for b.Loop() {
			m.Committed(times)
		}
	})
}

var repairGiB = flag.Int("repair.gib", 1, "size of the log in BenchmarkRepair; the disk needs three times as much")

// BenchmarkRepair flips a bit in a full segment of a log's leader, one of three in
// one process, while 8 callers append 2 KiB each. It reports the time from when the
// damage was found until the segment was whole, and the longest time without an
// acknowledged append, both then and in as much time without damage.
//
//	go test -run - -bench Repair -benchtime 3x ./internal/node -repair.gib 20
func BenchmarkRepair(b *testing.B) {
	c := newCluster(b, "a", "b", "c")
	for name := range c.stops { // the usual size of segments
		c.stop(name)
	}
	c.adjust = func(o *settings.Options) { o.SegmentBytes = 0 }
	for _, name := range []string{"a", "b", "c"} {
		c.start(name, nil)
	}
	_, err := c.nodes["a"].CreateLog(b.Context(), anyone, "orders", settings.Config{})
	require.NoError(b, err)
	value := strings.Repeat("x", 1<<20)
	var filling sync.WaitGroup
	for range 4 {
		filling.Go(func() {
			for range *repairGiB << 10 / 4 {
				c.append("orders", value)
			}
		})
	}
	filling.Wait()
	c.healthy()
	leader := c.leader("orders")
	h := c.nodes[leader].logs.Named("orders")
	_, dir := c.replicaOf(leader, "orders")
	var took, gaps, usual []float64
	for i := range b.N {
		files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
		require.NoError(b, err)
		file, err := os.OpenFile(files[(i*7+3)%(len(files)-2)], os.O_RDWR, 0)
		require.NoError(b, err)
		flipped := make([]byte, 1)
		_, err = file.ReadAt(flipped, 20<<20)
		require.NoError(b, err)
		flipped[0] ^= 1
		_, err = file.WriteAt(flipped, 20<<20)
		require.NoError(b, err)
		require.NoError(b, file.Close())

		gap := longestGap(c, leader, func() { time.Sleep(2 * time.Second) })
		usual = append(usual, gap.Seconds()*1000)
		damage := firstDamage(h)
		require.Error(b, damage)
		gap = longestGap(c, leader, func() {
			begin := time.Now()
			h.Found(damage)
			for h.Repairs.Underway() {
				time.Sleep(time.Millisecond)
			}
			took = append(took, time.Since(begin).Seconds()*1000)
		})
		gaps = append(gaps, gap.Seconds()*1000)
		require.NoError(b, firstDamage(h))
	}
	require.Equal(b, leader, c.leader("orders"))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(slices.Max(took), "repair-ms")
	b.ReportMetric(slices.Max(gaps), "longest-gap-ms")
	b.ReportMetric(slices.Max(usual), "longest-gap-ms-without")
}

// longestGap is the longest time without an acknowledged append while f runs.
func longestGap(c *testCluster, leader string, f func()) (longest time.Duration) {
	acknowledged := make(chan time.Time, 1024)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if appendTo(c.t, c.nodes[leader], "orders", request(c.t, strings.Repeat("y", 2<<10))).Refusal == nil {
					acknowledged <- time.Now()
				}
			}
		})
	}
	go func() {
		f()
		close(stop)
		running.Wait()
		close(acknowledged)
	}()
	last := time.Now()
	for at := range acknowledged {
		longest = max(longest, at.Sub(last))
		last = at
	}
	return longest
}
