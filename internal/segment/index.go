package segment

import (
	"sort"

	"strandline.dev/internal/record"
)

// index tells where the entries of one segment are: what its frames add up to
// after each has superseded those before it with its index or a higher one.
// The index of the active segment grows with each write; that of a full one
// is read from its footer, or built again by a scan.
//
//	frames, by entry index   10 11 12 13 | 12 13 14 | 14 15
//	runs                    [10 11]       [12 13]    [14 15]   what is read
type index struct {
	// runs hold each entry once, rising in index and in position.
	runs []run
	// points are rising in index and in position. Each run starts with one;
	// within a run a frame starts less than pointDistance behind one.
	points []point
	// terms are rising in index and in term.
	terms []termRun

	next       uint64        // one beyond the last entry
	nextOffset record.Offset // the lowest first offset that the entry at next can have
	time       int64         // no entry so far is later
	bytes      uint64        // payload of all entries below next, since the log's creation
	broken     bool          // the next entry begins a run: it was cut to
}

// run is a stretch of the file in which every entry counts, up to the first
// of the next run. Frames of other kinds may lie between them.
type run struct {
	first      uint64
	begin, end int64 // positions
}

// point is one entry among many whose place is remembered.
type point struct {
	index    uint64
	position int64
	offset   record.Offset // of its first record
	time     int64         // of this entry or, if later, of one before it
	bytes    uint64        // payload before it, since the log's creation
}

type termRun struct{ first, term uint64 }

// pointDistance bounds what a lookup reads beyond what it looks for. 64 KiB
// makes 1,024 points, 40 KiB, of a 64 MiB segment.
const pointDistance = 64 << 10

// newIndex is the index of a segment without frames.
func newIndex(h *header) *index {
	return &index{next: h.first, nextOffset: h.start, time: h.time, bytes: h.bytesBefore}
}

// add notes the entry h at position. It is the next one: a lower one has to
// be cut to first.
func (x *index) add(h *frameHeader, position int64) {
	x.time = max(x.time, h.time)
	begins := x.broken || len(x.runs) == 0
	if begins {
		x.runs = append(x.runs, run{first: h.index, begin: position})
		x.broken = false
	}
	if begins || position-x.points[len(x.points)-1].position >= pointDistance {
		x.points = append(x.points, point{h.index, position, h.first, x.time, x.bytes})
	}
	if n := len(x.terms); n == 0 || x.terms[n-1].term != h.term {
		x.terms = append(x.terms, termRun{h.index, h.term})
	}
	x.runs[len(x.runs)-1].end = position + h.size()
	x.next = h.index + 1
	x.nextOffset = h.first + record.Offset(h.count)
	x.bytes += uint64(h.length)
}

// cut forgets the entry at place and all after it.
func (x *index) cut(place point) {
	i := place.index
	x.runs = x.runs[:sort.Search(len(x.runs), func(k int) bool { return x.runs[k].first >= i })]
	if n := len(x.runs); n > 0 {
		x.runs[n-1].end = min(x.runs[n-1].end, place.position)
	}
	x.points = x.points[:sort.Search(len(x.points), func(k int) bool { return x.points[k].index >= i })]
	x.terms = x.terms[:sort.Search(len(x.terms), func(k int) bool { return x.terms[k].first >= i })]
	x.next, x.nextOffset, x.bytes = i, place.offset, place.bytes
	x.broken = true
}

// term is that of the entry i, which is in the index.
func (x *index) term(i uint64) uint64 {
	k := sort.Search(len(x.terms), func(k int) bool { return x.terms[k].first > i })
	return x.terms[k-1].term
}

// below returns the last point that satisfies is, which holds for all points
// up to some place and for none after; ok is false if it holds for none.
func (x *index) below(is func(*point) bool) (p point, ok bool) {
	k := sort.Search(len(x.points), func(k int) bool { return !is(&x.points[k]) })
	if k == 0 {
		return point{}, false
	}
	return x.points[k-1], true
}

// run returns the run that holds the entry i and the index at which it ends.
// i is at least the first entry's and below next.
func (x *index) run(i uint64) (r run, end uint64) {
	k := sort.Search(len(x.runs), func(k int) bool { return x.runs[k].first > i })
	if k == len(x.runs) {
		return x.runs[k-1], x.next
	}
	return x.runs[k-1], x.runs[k].first
}

// chunkEnd returns where to stop a read of about size bytes that starts at
// begin in r: at the start of a frame, so that no read gets half of one.
func (x *index) chunkEnd(r run, begin, size int64) int64 {
	if r.end-begin <= size {
		return r.end
	}
	k := sort.Search(len(x.points), func(k int) bool { return x.points[k].position > begin+size })
	if k > 0 && x.points[k-1].position > begin {
		return x.points[k-1].position
	}
	if k < len(x.points) {
		return min(r.end, x.points[k].position)
	}
	return r.end
}
