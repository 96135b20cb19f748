package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"strandline.dev/test/history"
)

// fence: the records of a writer term lie between the end that the log had when
// the term was acquired and the one it had when the next was, and a term is
// given once.
type fence struct {
	idle
	court
	books map[*book]map[uint64]*reign
}

// reign is what is known of a writer term.
type reign struct {
	term    uint64
	end     mark // of the log when it was acquired; none: not reported
	lowest  mark // offset of a record under it; none: no record
	highest mark
	accused bool
}

func newFence(c court, _ Options) rule { return &fence{court: c, books: map[*book]map[uint64]*reign{}} }

func (f *fence) reign(b *book, term uint64) *reign {
	if f.books[b] == nil {
		f.books[b] = map[uint64]*reign{}
	}
	r := f.books[b][term]
	if r == nil {
		r = &reign{term: term, end: mark{value: none}, lowest: mark{value: none}, highest: mark{value: none}}
		f.books[b][term] = r
	}
	return r
}

func (f *fence) returned(c *call, e *history.Event, at history.Place) {
	if c.verb != history.Writer || e.Outcome != history.OK {
		return
	}
	if e.Writer <= uint64(c.fence.value) {
		f.accuse(c.book, []history.Place{c.fence.at, c.invoked, at}, "writer term %d was given after term %d", e.Writer, c.fence.value)
	}
	if e.End != nil {
		f.reign(c.book, e.Writer).end.raise(*e.End, at)
	}
}

func (f *fence) placed(p *placement) {
	r := p.record
	if r == nil || r.ambiguous || r.call.writer == 0 || p.before.known {
		return
	}
	w := f.reign(p.book, r.call.writer)
	if w.lowest.value == none || p.offset < w.lowest.value {
		w.lowest = mark{p.offset, p.at}
	}
	w.highest.raise(p.offset, p.at)
	if newest := r.call.fence; uint64(newest.value) > w.term {
		w.accused = true
		f.accuse(p.book, []history.Place{newest.at, r.call.invoked, p.at}, "writer term %d had been fenced by term %d when the append of record %016x began, which is at offset %d",
			w.term, newest.value, r.hash, p.offset)
	}
}

func (f *fence) closed() {
	for b, reigns := range f.books {
		// From the newest term down, with the lowest end that any newer one had.
		next := mark{value: math.MaxInt64}
		for _, w := range slices.SortedFunc(maps.Values(reigns), func(a, b *reign) int { return cmp.Compare(b.term, a.term) }) {
			if w.highest.value >= next.value && !w.accused {
				f.accuse(b, []history.Place{next.at, w.highest.at}, "writer term %d has a record at offset %d, a newer term began at %d", w.term, w.highest.value, next.value)
			}
			if w.lowest.value != none && w.lowest.value < w.end.value {
				f.accuse(b, []history.Place{w.end.at, w.lowest.at}, "writer term %d has a record at offset %d, and began at %d", w.term, w.lowest.value, w.end.value)
			}
			if w.end.value != none && w.end.value < next.value {
				next = w.end
			}
		}
	}
}
