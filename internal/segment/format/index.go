package format

import (
	"sort"

	"strandline.dev/internal/record"
)

// Index locates the valid entries of one segment. Each entry truncates earlier ones with its
// index or a higher one; the index holds what is left. The index of the active segment grows with
// each write; that of a full one is read from its footer, or rebuilt by a scan.
//
//	frames, by entry index   10 11 12 13 | 12 13 14 | 14 15
//	runs                    [10 11]       [12 13]    [14 15]   valid entries
type Index struct {
	// Runs hold each valid entry once, in ascending order of index and position.
	Runs []Run
	// Points are in ascending order of index and position. Each run starts with one; within a run
	// each frame starts less than PointDistance behind one.
	Points []Point
	// Terms are in ascending order of index and term.
	Terms []TermRun

	Next       uint64        // one beyond the last entry
	NextOffset record.Offset // the lowest first offset that the entry at Next can have
	Time       int64         // no entry so far is later
	Bytes      uint64        // payload bytes of all entries below Next, since the log's creation
	broken     bool          // the next entry begins a run, since Cut removed those behind it
}

// Run is a range of the file in which every entry is valid, up to the first entry of the next
// run. Frames of other kinds may lie between them.
type Run struct {
	First      uint64
	Begin, End int64 // positions
}

// Point is the place of one entry and what precedes it. An index holds a sample of the entries.
type Point struct {
	Index    uint64
	Position int64
	Offset   record.Offset // of its first record
	Time     int64         // of this entry or, if later, of one before it
	Bytes    uint64        // payload before it, since the log's creation
}

// TermRun is a run of entries of one term.
type TermRun struct{ first, term uint64 }

// PointDistance bounds how many bytes a lookup reads in vain. 64 KiB makes 1,024 points, 40 KiB,
// of a 64 MiB segment.
const PointDistance = 64 << 10

// NewIndex returns the index of a segment without frames.
func NewIndex(h *Header) *Index {
	return &Index{Next: h.First, NextOffset: h.Start, Time: h.Time, Bytes: h.BytesBefore}
}

// Add adds the entry h at the given position. Its index must be Next; Cut makes room for a lower
// one.
func (x *Index) Add(h *FrameHeader, position int64) {
	x.Time = max(x.Time, h.Time)
	begins := x.broken || len(x.Runs) == 0
	if begins {
		x.Runs = append(x.Runs, Run{First: h.Index, Begin: position})
		x.broken = false
	}
	if begins || position-x.Points[len(x.Points)-1].Position >= PointDistance {
		x.Points = append(x.Points, Point{h.Index, position, h.First, x.Time, x.Bytes})
	}
	if n := len(x.Terms); n == 0 || x.Terms[n-1].term != h.Term {
		x.Terms = append(x.Terms, TermRun{h.Index, h.Term})
	}
	x.Runs[len(x.Runs)-1].End = position + h.Size()
	x.Next = h.Index + 1
	x.NextOffset = h.First + record.Offset(h.Count)
	x.Bytes += uint64(h.Length)
}

// Cut removes the entry at place and all after it.
func (x *Index) Cut(place Point) {
	i := place.Index
	x.Runs = x.Runs[:sort.Search(len(x.Runs), func(k int) bool { return x.Runs[k].First >= i })]
	if n := len(x.Runs); n > 0 {
		x.Runs[n-1].End = min(x.Runs[n-1].End, place.Position)
	}
	x.Points = x.Points[:sort.Search(len(x.Points), func(k int) bool { return x.Points[k].Index >= i })]
	x.Terms = x.Terms[:sort.Search(len(x.Terms), func(k int) bool { return x.Terms[k].first >= i })]
	x.Next, x.NextOffset, x.Bytes = i, place.Offset, place.Bytes
	x.broken = true
}

// Term returns the term of the entry i, which must be in the index.
func (x *Index) Term(i uint64) uint64 {
	k := sort.Search(len(x.Terms), func(k int) bool { return x.Terms[k].first > i })
	return x.Terms[k-1].term
}

// Below returns the last point that satisfies is, which must hold for all points up to some place
// and for none after; ok is false if it holds for none.
func (x *Index) Below(is func(*Point) bool) (p Point, ok bool) {
	k := sort.Search(len(x.Points), func(k int) bool { return !is(&x.Points[k]) })
	if k == 0 {
		return Point{}, false
	}
	return x.Points[k-1], true
}

// Run returns the run that holds the entry i and the index at which the run ends. i must be at
// least that of the first entry and below Next.
func (x *Index) Run(i uint64) (r Run, end uint64) {
	k := sort.Search(len(x.Runs), func(k int) bool { return x.Runs[k].First > i })
	if k == len(x.Runs) {
		return x.Runs[k-1], x.Next
	}
	return x.Runs[k-1], x.Runs[k].First
}

// ChunkEnd returns where a read of about size bytes that starts at begin in r should stop. The
// end is the start of a frame, so no read gets part of one.
func (x *Index) ChunkEnd(r Run, begin, size int64) int64 {
	if r.End-begin <= size {
		return r.End
	}
	k := sort.Search(len(x.Points), func(k int) bool { return x.Points[k].Position > begin+size })
	if k > 0 && x.Points[k-1].Position > begin {
		return x.Points[k-1].Position
	}
	if k < len(x.Points) {
		return min(r.End, x.Points[k].Position)
	}
	return r.End
}

// Bracket returns the last point for which before holds, the point after it, and the position at
// which the frames between the two end. If ok is false, before holds for no point and after is
// the answer.
func (x *Index) Bracket(before func(*Point) bool) (from, after Point, limit int64, ok bool) {
	k := sort.Search(len(x.Points), func(k int) bool { return !before(&x.Points[k]) })
	after = Point{Index: x.Next, Offset: x.NextOffset, Time: x.Time, Bytes: x.Bytes}
	if k < len(x.Points) {
		after = x.Points[k]
	}
	if k == 0 {
		return from, after, 0, false
	}
	from = x.Points[k-1]
	r, _ := x.Run(from.Index)
	limit = r.End
	if k < len(x.Points) {
		limit = min(limit, after.Position)
	}
	return from, after, limit, true
}
