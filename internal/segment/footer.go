package segment

import (
	"encoding/binary"
	"errors"

	"strandline.dev/internal/record"
)

const (
	footerFixedSize = 48
	runSize         = 24
	pointSize       = 40
	termRunSize     = 16
)

var errFooter = errors.New("footer does not hold a valid index")

// encode appends the payload of a footer frame. All integers are little-endian.
//
//	 0  u32  runs
//	 4  u32  points
//	 8  u32  terms
//	12  u32  reserved      0
//	16  u64  next          index
//	24  i64  next offset
//	32  i64  time          unix ms
//	40  u64  bytes
//	48  runs:   u64 first index, i64 begin, i64 end
//	    points: u64 index, i64 position, i64 offset, i64 time, u64 bytes
//	    terms:  u64 first index, u64 term
//
// A later segment may supersede entries of this one, and then its first index
// is the end of what counts here: the list of segments knows it.
func (x *index) encode(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(x.runs)))
	b = le.AppendUint32(b, uint32(len(x.points)))
	b = le.AppendUint32(b, uint32(len(x.terms)))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, x.next)
	b = le.AppendUint64(b, uint64(x.nextOffset))
	b = le.AppendUint64(b, uint64(x.time))
	b = le.AppendUint64(b, x.bytes)
	for _, r := range x.runs {
		b = le.AppendUint64(b, r.first)
		b = le.AppendUint64(b, uint64(r.begin))
		b = le.AppendUint64(b, uint64(r.end))
	}
	for _, p := range x.points {
		b = le.AppendUint64(b, p.index)
		b = le.AppendUint64(b, uint64(p.position))
		b = le.AppendUint64(b, uint64(p.offset))
		b = le.AppendUint64(b, uint64(p.time))
		b = le.AppendUint64(b, p.bytes)
	}
	for _, t := range x.terms {
		b = le.AppendUint64(b, t.first)
		b = le.AppendUint64(b, t.term)
	}
	return b
}

// parseFooter reads the payload of a footer frame of a segment that begins at
// the entry first and ends at position end.
func parseFooter(b []byte, first uint64, end int64) (*index, error) {
	if len(b) < footerFixedSize {
		return nil, errFooter
	}
	le := binary.LittleEndian
	runs, points, terms := int(le.Uint32(b)), int(le.Uint32(b[4:])), int(le.Uint32(b[8:]))
	x := &index{
		next:       le.Uint64(b[16:]),
		nextOffset: record.Offset(le.Uint64(b[24:])),
		time:       int64(le.Uint64(b[32:])),
		bytes:      le.Uint64(b[40:]),
	}
	b = b[footerFixedSize:]
	// The counts are 32 bits and int has 64, so the products do not overflow.
	if runs*runSize+points*pointSize+terms*termRunSize != len(b) {
		return nil, errFooter
	}
	x.runs = make([]run, runs)
	for i := range x.runs {
		x.runs[i] = run{le.Uint64(b), int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))}
		b = b[runSize:]
	}
	x.points = make([]point, points)
	for i := range x.points {
		x.points[i] = point{
			index:    le.Uint64(b),
			position: int64(le.Uint64(b[8:])),
			offset:   record.Offset(le.Uint64(b[16:])),
			time:     int64(le.Uint64(b[24:])),
			bytes:    le.Uint64(b[32:]),
		}
		b = b[pointSize:]
	}
	x.terms = make([]termRun, terms)
	for i := range x.terms {
		x.terms[i] = termRun{le.Uint64(b), le.Uint64(b[8:])}
		b = b[termRunSize:]
	}
	if !x.valid(first, end) {
		return nil, errFooter
	}
	return x, nil
}

// valid reports whether lookups in x stay within the entries from first on
// and the positions below end. It is asked of indexes read from disk.
func (x *index) valid(first uint64, end int64) bool {
	if x.next == first {
		return len(x.runs) == 0 && len(x.points) == 0 && len(x.terms) == 0
	}
	if x.next < first || len(x.runs) == 0 || len(x.points) == 0 || len(x.terms) == 0 {
		return false
	}
	if x.runs[0].first != first || x.points[0].index != first || x.terms[0].first != first {
		return false
	}
	position := int64(headerSize)
	for i, r := range x.runs {
		if r.begin < position || r.end <= r.begin || r.end > end || r.first >= x.next {
			return false
		}
		if i > 0 && r.first <= x.runs[i-1].first {
			return false
		}
		if p, _ := x.below(func(p *point) bool { return p.index <= r.first }); p.index != r.first || p.position != r.begin {
			return false
		}
		position = r.end
	}
	for i, p := range x.points {
		if p.index < first || p.index >= x.next {
			return false
		}
		if r, _ := x.run(p.index); p.position < r.begin || p.position >= r.end {
			return false
		}
		if i > 0 && (p.index <= x.points[i-1].index || p.position <= x.points[i-1].position) {
			return false
		}
	}
	for i, t := range x.terms {
		if t.first >= x.next || i > 0 && t.first <= x.terms[i-1].first {
			return false
		}
	}
	return true
}
