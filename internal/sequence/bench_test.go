package sequence

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// window drives proposals of 128 single-record appends of 2 KiB, two proposals in
// number, as the replica does on a busy log.
type window struct {
	s        *Sequencer
	requests []*Append
	entries  [2]proposedEntry // memory of those in flight, as Raft has its own
	round    int
}

func newWindow(t testing.TB, sessions int) *window {
	w := &window{s: New(NewTable())}
	w.s.StartLeading(1, 0)
	for id := 1; id <= sessions; id++ {
		w.s.Command(record.Command{Kind: record.OpenSession, Session: record.SessionID(id), Lease: 10_000})
	}
	commitAll(t, w.s)
	batch := batchOf(t, 1, 2048)
	for i := range 128 {
		a := &Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{batch}}
		if sessions > 0 {
			a.Session, a.First = record.SessionID(1+i%sessions), record.Sequence(i/sessions)
		}
		w.requests = append(w.requests, measured(a))
	}
	for range 4 {
		w.step(t, sessions)
	}
	return w
}

// step appends and proposes one entry, and commits the one before.
func (w *window) step(t testing.TB, sessions int) {
	w.stepWith(t, sessions, true)
}

// stepKeeping is step without a low-water mark that rises.
func (w *window) stepKeeping(t testing.TB, sessions int) { w.stepWith(t, sessions, false) }

func (w *window) stepWith(t testing.TB, sessions int, raise bool) {
	for _, a := range w.requests {
		if w.s.Append(a).Refusal != nil {
			t.Fatal("refused")
		}
		if sessions > 0 {
			a.First += record.Sequence(128 / sessions)
			if !raise {
				continue
			}
			a.LowWater = a.First - min(a.First, record.Sequence(3*128/sessions))
		}
	}
	d := w.s.Propose(int64(w.round))[0]
	e := &w.entries[w.round%2]
	e.data, e.crc = append(e.data[:0], d.Data...), d.CRC
	w.round++
	if before := &w.entries[w.round%2]; before.data != nil {
		if err := w.s.Committed(before.data, before.crc); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASteadyStreamOfAppendsAllocatesNothing(t *testing.T) {
	for _, sessions := range []int{0, 1, 128} {
		w := newWindow(t, sessions)
		for range 20 {
			w.step(t, sessions)
		}
		require.Zero(t, testing.AllocsPerRun(50, func() { w.step(t, sessions) }), "%d sessions", sessions)
	}
}

func BenchmarkProposalOf128Appends(b *testing.B) {
	for name, sessions := range map[string]int{"sessions=0": 0, "sessions=1": 1, "sessions=128": 128} {
		b.Run(name, func(b *testing.B) {
			w := newWindow(b, sessions)
			b.SetBytes(128 * 2048)
			b.ReportAllocs()
			for b.Loop() {
				w.step(b, sessions)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/append")
		})
	}
}

// BenchmarkCheckedAppend is BenchmarkProposalOf128Appends of records with keys: of a log whose
// clients do not check, of one that keeps keys, and of checked appends.
func BenchmarkCheckedAppend(b *testing.B) {
	for _, name := range []string{"unused", "kept", "checked"} {
		b.Run(name, func(b *testing.B) {
			w := newWindow(b, 0)
			if name != "unused" {
				w.s.KeepKeys()
			}
			keys := make([][]byte, len(w.requests))
			for i, a := range w.requests {
				keys[i] = fmt.Appendf(nil, "account/%08d", i*7919)
				var builder record.Builder
				require.NoError(b, builder.Add(record.Record{Key: keys[i], Value: make([]byte, 2048)}))
				batch, err := builder.Finish(record.None)
				require.NoError(b, err)
				a.Batches = []record.Batch{batch}
				measured(a)
			}
			b.ReportAllocs()
			for b.Loop() {
				if name == "checked" {
					for i, a := range w.requests {
						a.Check, a.Atomic = &Check{Since: w.s.End(), keys: keys[i : i+1]}, true
					}
				}
				w.step(b, 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/append")
		})
	}
}
