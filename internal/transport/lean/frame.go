package lean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
)

// Magic is the first bytes of every connection.
const Magic = "\xf5STREAM\n"

type kind byte

const (
	callKind kind = 1 + iota
	messageKind
	lastKind
	acceptedKind
	endKind
	aliveKind
)

const (
	headerBytes = 5
	// buffered is the size of the read buffer that each connection keeps. A frame that fits is
	// decoded in place.
	buffered = 8 << 10
	// gathered is the limit on the size of a payload that is copied behind its header for one
	// write.
	gathered = 4 << 10
	// Bounds of the pieces of a long frame. Each piece is as long as the bytes of the frame that
	// have arrived, within these bounds: a claimed length alone does not cause an allocation.
	leastPiece = 32 << 10
	mostPiece  = 1 << 20
	// keptPiece is the size of the buffer that a client keeps for the next payload.
	keptPiece = 4 << 20

	maxCallBytes = 16 << 10
	maxItems     = 64 // items of metadata in a call
	maxEndBytes  = 1 << 20
)

var errTooLarge = errors.New("frame above the limit")

// frameReader reads frames. Only one goroutine may use it.
type frameReader struct {
	from io.Reader
	pool mem.BufferPool
	// limits are the limits on the payload of each kind, in bytes. The limit is 0 for a kind that
	// the other end may not send now, or that has no payload.
	limits [aliveKind + 1]int
	// large, if it is not nil, receives a payload that is longer than the buffer in one piece,
	// instead of in pieces from the pool. It is reused.
	large []byte
	// heard is set when bytes arrive, and cleared by each check of the connection.
	heard atomic.Bool

	buffer     [buffered]byte
	begin, end int // bounds of the received bytes of buffer that were not returned yet
}

// next returns the next frame that is not an alive frame. The payload is valid until the next
// call, and the caller must free it before that call.
func (r *frameReader) next() (kind, mem.BufferSlice, error) {
	for {
		if err := r.fill(headerBytes); err != nil {
			return 0, nil, err
		}
		header := r.buffer[r.begin:]
		length, k := int(binary.LittleEndian.Uint32(header)), kind(header[4])
		if k > aliveKind || length > r.limits[k] {
			return 0, nil, fmt.Errorf("%w: kind %d with %d bytes", errTooLarge, k, length)
		}
		r.begin += headerBytes
		switch {
		case k == aliveKind:
		case length == 0:
			return k, nil, nil
		case length <= len(r.buffer):
			if err := r.fill(length); err != nil {
				return 0, nil, unfinished(err)
			}
			payload := mem.SliceBuffer(r.buffer[r.begin : r.begin+length])
			r.begin += length
			return k, mem.BufferSlice{payload}, nil
		case r.large != nil:
			payload, err := r.inOnePiece(length)
			return k, payload, unfinished(err)
		default:
			payload, err := r.pieces(length)
			return k, payload, unfinished(err)
		}
	}
}

// fill ensures that the buffer holds at least bytes unread bytes, which must not exceed its size.
func (r *frameReader) fill(bytes int) error {
	if r.end-r.begin >= bytes {
		return nil
	}
	r.end = copy(r.buffer[:], r.buffer[r.begin:r.end])
	r.begin = 0
	for r.end < bytes {
		n, err := r.from.Read(r.buffer[r.end:])
		r.end += n
		r.hear(n)
		if err != nil && r.end < bytes {
			if r.end > 0 {
				err = unfinished(err)
			}
			return err
		}
	}
	return nil
}

func (r *frameReader) hear(bytes int) {
	if bytes > 0 && !r.heard.Load() {
		r.heard.Store(true)
	}
}

// pieces receives a payload that is longer than the buffer into pieces of the pool.
func (r *frameReader) pieces(length int) (payload mem.BufferSlice, err error) {
	for received := 0; received < length; {
		piece := r.pool.Get(min(length-received, max(leastPiece, min(received, mostPiece))))
		payload = append(payload, mem.NewBuffer(piece, r.pool))
		n := copy(*piece, r.buffer[r.begin:r.end])
		r.begin += n
		for n < len(*piece) {
			more, err := r.from.Read((*piece)[n:])
			n += more
			r.hear(more)
			if err != nil && n < len(*piece) {
				payload.Free()
				return nil, err
			}
		}
		received += n
	}
	return payload, nil
}

// inOnePiece receives a payload that is longer than the buffer into large, which grows while it
// fills.
func (r *frameReader) inOnePiece(length int) (mem.BufferSlice, error) {
	if cap(r.large) > keptPiece && length <= mostPiece {
		r.large = []byte{}
	}
	r.large = r.large[:0]
	for received := 0; received < length; {
		size := min(length, max(cap(r.large), mostPiece, 2*received))
		r.large = slices.Grow(r.large, size-received)[:size]
		n := copy(r.large[received:], r.buffer[r.begin:r.end])
		r.begin += n
		for received += n; received < size; {
			n, err := r.from.Read(r.large[received:])
			received += n
			r.hear(n)
			if err != nil && received < size {
				return nil, err
			}
		}
	}
	return mem.BufferSlice{mem.SliceBuffer(r.large)}, nil
}

// unfinished returns err, or io.ErrUnexpectedEOF if the connection ended within a frame.
func unfinished(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameWriter writes frames. Many goroutines may use it at the same time.
type frameWriter struct {
	// spoken is set when a frame is written, and cleared by each check of the connection.
	spoken atomic.Bool

	mu      sync.Mutex
	to      net.Conn
	scratch []byte
	kept    [][]byte    // reused memory for parts
	parts   net.Buffers // parts of the frame that is being written
	failed  error       // error of an earlier write; no frame can follow a partial one

	// hasty is set when the server stops. Then no write may take longer than stopTime.
	hasty atomic.Bool

	sendFile SendFile
	direct   bool // whether the system itself sends the bytes of files

	// try writes without blocking. It is nil if the connection does not support that.
	try TryWrite
	// cut is the rest of a message that try wrote in part. The caller sends the message again,
	// which writes the rest. It is a part of scratch.
	cut []byte
}

// TryWrite writes as much of data as a connection accepts without blocking.
type TryWrite func(data []byte) (n int, err error)

// write writes one frame. It does not free the payload.
func (w *frameWriter) write(k kind, payload mem.BufferSlice) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeLocked(k, payload)
}

// hasten sets stopTime as the limit on the time of each write from now on, and of one in
// progress.
func (w *frameWriter) hasten() {
	w.hasty.Store(true)
	w.bound()
}

// bound sets the deadline of a write if the server stops. It is called before each write.
func (w *frameWriter) bound() {
	if w.hasty.Load() {
		_ = w.to.SetWriteDeadline(time.Now().Add(stopTime)) // if it fails, so does the write
	}
}

func (w *frameWriter) writeLocked(k kind, payload mem.BufferSlice) error {
	w.bound()
	switch cut := len(w.cut) > 0; {
	case cut && k == aliveKind:
		return w.failed // the rest of the message is a sign of life
	case w.finishCut() != nil:
		return w.failed
	case cut && k == messageKind:
		return nil
	}
	length := payload.Len()
	if w.begin(k, length); length <= gathered {
		w.gather(payload)
		_, w.failed = w.to.Write(w.scratch)
	} else {
		parts := append(w.kept[:0], w.scratch)
		for _, part := range payload {
			parts = append(parts, part.ReadOnlyData())
		}
		w.kept, w.parts = parts, parts
		_, w.failed = w.parts.WriteTo(w.to)
		clear(w.kept)
	}
	if !w.spoken.Load() {
		w.spoken.Store(true)
	}
	return w.failed
}

// finishCut writes the rest of a message that was written in part.
func (w *frameWriter) finishCut() error {
	if len(w.cut) > 0 && w.failed == nil {
		_, w.failed = w.to.Write(w.cut)
		w.cut = nil
	}
	return w.failed
}

func (w *frameWriter) begin(k kind, length int) {
	w.scratch = binary.LittleEndian.AppendUint32(w.scratch[:0], uint32(length))
	w.scratch = append(w.scratch, byte(k))
}

func (w *frameWriter) gather(payload mem.BufferSlice) {
	for _, part := range payload {
		w.scratch = append(w.scratch, part.ReadOnlyData()...)
	}
}

// tryWrite writes a small message if this is possible without blocking, and reports whether it
// wrote the whole message.
func (w *frameWriter) tryWrite(payload mem.BufferSlice) bool {
	length := payload.Len()
	if length > gathered || !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	if w.failed != nil || len(w.cut) > 0 {
		return false
	}
	w.begin(messageKind, length)
	w.gather(payload)
	n, err := w.try(w.scratch)
	if n > 0 {
		w.cut, w.failed = w.scratch[n:], err
		if !w.spoken.Load() {
			w.spoken.Store(true)
		}
	}
	return n == len(w.scratch)
}

// unwrap returns the connection that the writes of c go to unchanged, so that many parts can be
// written in one system call.
func unwrap(c net.Conn) net.Conn {
	for {
		outer, ok := c.(interface{ WritesTo() net.Conn })
		if !ok {
			return c
		}
		c = outer.WritesTo()
	}
}
