package format

import (
	"encoding/binary"
	"errors"

	"strandline.dev/internal/record"
)

const (
	FooterFixedSize = 48
	runSize         = 24
	pointSize       = 40
	termRunSize     = 16
)

// ErrFooter is returned for a footer whose index is not valid.
var ErrFooter = errors.New("footer does not hold a valid index")

// Encode appends the payload of a footer frame. All integers are little-endian.
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
// A later segment may truncate entries of this one. The footer does not show it: valid entries
// end at the first index of that segment.
func (x *Index) Encode(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(x.Runs)))
	b = le.AppendUint32(b, uint32(len(x.Points)))
	b = le.AppendUint32(b, uint32(len(x.Terms)))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, x.Next)
	b = le.AppendUint64(b, uint64(x.NextOffset))
	b = le.AppendUint64(b, uint64(x.Time))
	b = le.AppendUint64(b, x.Bytes)
	for _, r := range x.Runs {
		b = le.AppendUint64(b, r.First)
		b = le.AppendUint64(b, uint64(r.Begin))
		b = le.AppendUint64(b, uint64(r.End))
	}
	for _, p := range x.Points {
		b = le.AppendUint64(b, p.Index)
		b = le.AppendUint64(b, uint64(p.Position))
		b = le.AppendUint64(b, uint64(p.Offset))
		b = le.AppendUint64(b, uint64(p.Time))
		b = le.AppendUint64(b, p.Bytes)
	}
	for _, t := range x.Terms {
		b = le.AppendUint64(b, t.first)
		b = le.AppendUint64(b, t.term)
	}
	return b
}

// ParseFooter decodes the payload of a footer frame. The segment begins at the entry first, and
// its frames end at position end.
func ParseFooter(b []byte, first uint64, end int64) (*Index, error) {
	if len(b) < FooterFixedSize {
		return nil, ErrFooter
	}
	le := binary.LittleEndian
	runs, points, terms := int(le.Uint32(b)), int(le.Uint32(b[4:])), int(le.Uint32(b[8:]))
	x := &Index{
		Next:       le.Uint64(b[16:]),
		NextOffset: record.Offset(le.Uint64(b[24:])),
		Time:       int64(le.Uint64(b[32:])),
		Bytes:      le.Uint64(b[40:]),
	}
	b = b[FooterFixedSize:]
	// The counts are 32 bits and int has 64, so the products do not overflow.
	if runs*runSize+points*pointSize+terms*termRunSize != len(b) {
		return nil, ErrFooter
	}
	x.Runs = make([]Run, runs)
	for i := range x.Runs {
		x.Runs[i] = Run{le.Uint64(b), int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))}
		b = b[runSize:]
	}
	x.Points = make([]Point, points)
	for i := range x.Points {
		x.Points[i] = Point{
			Index:    le.Uint64(b),
			Position: int64(le.Uint64(b[8:])),
			Offset:   record.Offset(le.Uint64(b[16:])),
			Time:     int64(le.Uint64(b[24:])),
			Bytes:    le.Uint64(b[32:]),
		}
		b = b[pointSize:]
	}
	x.Terms = make([]TermRun, terms)
	for i := range x.Terms {
		x.Terms[i] = TermRun{le.Uint64(b), le.Uint64(b[8:])}
		b = b[termRunSize:]
	}
	if !x.Valid(first, end) {
		return nil, ErrFooter
	}
	return x, nil
}

// Valid reports whether every lookup in x yields entries from first on and positions below end.
// Indexes read from disk are checked with it.
func (x *Index) Valid(first uint64, end int64) bool {
	if x.Next == first {
		return len(x.Runs) == 0 && len(x.Points) == 0 && len(x.Terms) == 0
	}
	if x.Next < first || len(x.Runs) == 0 || len(x.Points) == 0 || len(x.Terms) == 0 {
		return false
	}
	if x.Runs[0].First != first || x.Points[0].Index != first || x.Terms[0].first != first {
		return false
	}
	position := int64(HeaderSize)
	for i, r := range x.Runs {
		if r.Begin < position || r.End <= r.Begin || r.End > end || r.First >= x.Next {
			return false
		}
		if i > 0 && r.First <= x.Runs[i-1].First {
			return false
		}
		if p, _ := x.Below(func(p *Point) bool { return p.Index <= r.First }); p.Index != r.First || p.Position != r.Begin {
			return false
		}
		position = r.End
	}
	for i, p := range x.Points {
		if p.Index < first || p.Index >= x.Next {
			return false
		}
		if r, _ := x.Run(p.Index); p.Position < r.Begin || p.Position >= r.End {
			return false
		}
		if i > 0 && (p.Index <= x.Points[i-1].Index || p.Position <= x.Points[i-1].Position) {
			return false
		}
	}
	for i, t := range x.Terms {
		if t.first >= x.Next || i > 0 && t.first <= x.Terms[i-1].first {
			return false
		}
	}
	return true
}
