package peer

import (
	"io"
	"net"
)

const (
	// copyBelow is the size below which it is cheaper to copy a piece than to pass it to the
	// kernel separately.
	copyBelow    = 1 << 10
	scratchBytes = 256 << 10
)

// batch holds the bytes of one writev: headers and small pieces, which are copied one after the
// other, and references to large pieces.
type batch struct {
	bytes   int
	pieces  [][]byte // the last may be a run of scratch that still grows
	scratch []byte   // never moves, since its capacity is fixed
	growing bool     // the last piece is the end of scratch
	// compressor compresses the parts of all messages that are not urgent. If it is nil, they are
	// sent uncompressed.
	compressor *compressor
}

func newBatch() *batch {
	return &batch{scratch: make([]byte, 0, scratchBytes+2*headerSize)}
}

// hasRoom reports whether there is room for another header of a lane. The last two places are
// reserved for the bulk lane and the large lane.
func (b *batch) hasRoom(in lane) bool {
	limit, headers := scratchBytes, 1
	if in != urgent {
		limit += headerSize
		if in == large {
			limit += headerSize
		}
		if b.compressor != nil {
			headers += len(b.compressor.late)
		}
	}
	return len(b.scratch)+headers*headerSize <= limit
}

// begin adds the header of a part. The pieces of the part follow.
func (b *batch) begin(h header) {
	if b.late(h.lane) {
		b.compressor.late = append(b.compressor.late, latePart{header: h})
		b.bytes += headerSize
		return
	}
	b.header(h)
}

// piece adds a piece of payload to the part that begin added last.
func (b *batch) piece(in lane, piece []byte) {
	if !b.late(in) {
		b.add(piece)
		return
	}
	last := &b.compressor.late[len(b.compressor.late)-1]
	last.pieces = append(last.pieces, piece)
	b.bytes += len(piece)
}

// late reports whether the parts of a lane wait for the compressor.
func (b *batch) late(in lane) bool { return in != urgent && b.compressor != nil }

// header adds a header. There must be room for it.
func (b *batch) header(h header) {
	at := len(b.scratch)
	b.scratch = h.append(b.scratch)
	b.copied(at)
}

// add adds a piece of payload.
func (b *batch) add(piece []byte) {
	switch {
	case len(piece) == 0:
	case len(piece) < copyBelow && len(b.scratch)+len(piece) <= scratchBytes:
		at := len(b.scratch)
		b.scratch = append(b.scratch, piece...)
		b.copied(at)
	default:
		b.refer(piece)
		b.bytes += len(piece)
	}
}

// refer adds a piece by reference.
func (b *batch) refer(piece []byte) {
	b.pieces = append(b.pieces, piece)
	b.growing = false
}

// copied makes the bytes of scratch from position at on a part of the pieces.
func (b *batch) copied(at int) {
	b.bytes += len(b.scratch) - at
	if b.growing {
		last := &b.pieces[len(b.pieces)-1]
		*last = (*last)[:len(*last)+len(b.scratch)-at]
		return
	}
	b.pieces = append(b.pieces, b.scratch[at:])
	b.growing = true
}

// writeTo writes all pieces and empties the batch, so that the batch keeps no message in memory.
func (b *batch) writeTo(w io.Writer) (int64, error) {
	rest := net.Buffers(b.pieces)
	n, err := rest.WriteTo(w)
	clear(b.pieces)
	b.bytes, b.pieces, b.scratch, b.growing = 0, b.pieces[:0], b.scratch[:0], false
	return n, err
}
