package sequence

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// TestSpanListsChangeIndependently drives lists and their clones at random, beside
// plain slices.
func TestSpanListsChangeIndependently(t *testing.T) {
	type pair struct {
		list  spanList
		model []span
	}
	random := rand.New(rand.NewPCG(1, 2))
	pairs := []*pair{{}}
	next := record.Sequence(0)
	for range 60_000 {
		p := pairs[random.IntN(len(pairs))]
		switch dice := random.IntN(100); {
		case dice < 55:
			s := span{first: next, count: 1 + random.Uint64N(5), offset: record.Offset(next) + 7}
			next = s.end() + record.Sequence(random.IntN(2))
			p.list.pushBack(s)
			p.model = append(p.model, s)
		case len(p.model) == 0:
		case dice < 65:
			p.list.extend(3)
			p.model[len(p.model)-1].count += 3
			next = max(next, p.model[len(p.model)-1].end())
		case dice < 70:
			for range min(len(p.model), random.IntN(200)) {
				p.list.popFront()
				p.model = p.model[1:]
			}
		case dice < 80:
			if first := &p.model[0]; first.count > 1 {
				p.list.cutFront(first.first + 1)
				*first = span{first: first.first + 1, count: first.count - 1, offset: first.offset + 1}
			}
		case dice < 98:
			at := p.model[random.IntN(len(p.model))]
			got, found := p.list.find(at.end() - 1)
			require.True(t, found)
			require.Equal(t, at, got)
			_, found = p.list.find(p.model[0].first - 1)
			require.False(t, found)
		default:
			c := &pair{p.list.clone(), slices.Clone(p.model)}
			if len(pairs) < 4 {
				pairs = append(pairs, c)
			} else {
				pairs[random.IntN(len(pairs))] = c
			}
		}
		require.Equal(t, len(p.model), p.list.len())
	}
	for _, p := range pairs {
		for i := range p.model {
			require.Equal(t, p.model[i], p.list.at(i))
		}
	}
}

// TestACopyIsEncodedBesideTheTable: a replica saves a copy of its table while it
// folds further entries. The race detector sees what the two share and change.
func TestACopyIsEncodedBesideTheTable(t *testing.T) {
	w := newWindow(t, 8)
	for _, a := range w.requests {
		a.LowWater = 0 // so that spans gather, more than a chunk of them
	}
	var encoding sync.WaitGroup
	defer encoding.Wait()
	for range 20 {
		for range 8 {
			w.stepKeeping(t, 8)
		}
		before, c := w.s.table.Snapshot(nil), w.s.table.Copy()
		encoding.Go(func() {
			for range 10 {
				if !slices.Equal(before, c.Snapshot(nil)) {
					t.Error("the copy has changed")
				}
			}
		})
	}
	require.Greater(t, w.s.table.sessions.spans, 8*3*chunkSpans)
}

// bigTable has many sessions of 8 spans each.
func bigTable(t testing.TB, spans int) *Table {
	table := NewTable()
	table.log.end = 1 << 40
	for id := 1; id <= spans/8; id++ {
		s := table.openSession(record.SessionID(id), 10_000, false)
		for i := range 8 {
			s.next += record.Sequence(i) // a gap: what is between is forgotten
			s.take(1, record.Offset(id*100+2*i))
		}
		table.sessions.spans += s.remember
	}
	require.Equal(t, spans, table.sessions.spans)
	return table
}

// BenchmarkFreezing compares what a loop that folds entries spends on a snapshot at
// the end of a segment: to encode the table, or to copy it, and then to clone each
// session that the next 10,000 batches change.
func BenchmarkFreezing(b *testing.B) {
	for name, spans := range map[string]int{"spans=800000": 800_000, "spans=80000": 80_000} {
		table := bigTable(b, spans)
		b.Run("encode/"+name, func(b *testing.B) {
			for b.Loop() {
				table.Snapshot(nil)
			}
		})
		b.Run("restore/"+name, func(b *testing.B) {
			encoded := table.Snapshot(nil)
			for b.Loop() {
				_, err := RestoreTable(encoded)
				require.NoError(b, err)
			}
		})
		b.Run("copy/"+name, func(b *testing.B) {
			for b.Loop() {
				table.Copy()
			}
		})
		b.Run("copy+10000-changed/"+name, func(b *testing.B) {
			for b.Loop() {
				table.Copy()
				for id := range 10_000 {
					table.sessions.change(record.SessionID(1 + id))
				}
			}
		})
	}
}
