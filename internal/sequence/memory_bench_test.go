package sequence

import (
	"cmp"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// held is what sessions of so many past epochs and spans in each epoch take in memory,
// and what is counted for them, in bytes for each.
func held(t testing.TB, sessions, past, spans int) (taken, counted int64) {
	t.Helper()
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	s := New(NewTable())
	s.StartLeading(1, 0)
	batch, other := batchOf(t, 1, 1), measured(&Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{batchOf(t, 1, 1)}})
	for id := range record.SessionID(sessions) {
		for epoch := range record.Epoch(past + 1) {
			for i := range spans {
				a := measured(&Append{
					Session: id + 1, Epoch: epoch, First: record.Sequence(i), Implicit: true, ExpectedEnd: NoExpectation, Batches: []record.Batch{batch},
				})
				// The other one is in between, so that the next is no part of the same span.
				if r := cmp.Or(s.Append(a).Refusal, s.Append(other).Refusal); r != nil {
					t.Fatal(r)
				}
			}
		}
		if id%64 == 0 {
			commitAll(t, s)
		}
	}
	commitAll(t, s)
	s.Release()
	taken = live() - before
	counted = s.table.Bytes()
	runtime.KeepAlive(s)
	return taken / int64(sessions), counted / int64(sessions)
}

var heldCases = []struct{ sessions, past, spans int }{{5_000, 0, 1}, {5_000, 0, 4}, {1_000, 0, 16}, {500, 0, 64}, {1_000, 3, 4}, {200, 60, 1}}

// What is counted in the node's memory is what the sessions take, within a third.
func TestWhatSessionsTakeIsCounted(t *testing.T) {
	for _, c := range heldCases {
		taken, counted := held(t, c.sessions, c.past, c.spans)
		require.InEpsilon(t, taken, counted, 1./3, "%+v", c)
	}
}

func BenchmarkSessionMemory(b *testing.B) {
	for _, c := range heldCases {
		b.Run(fmt.Sprintf("past=%d/spans=%d", c.past, c.spans), func(b *testing.B) {
			for b.Loop() {
				taken, counted := held(b, c.sessions, c.past, c.spans)
				b.ReportMetric(float64(taken), "B/session")
				b.ReportMetric(float64(counted), "counted-B/session")
			}
		})
	}
}
