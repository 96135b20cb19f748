package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

const (
	// growthMin is the initial size of a buffer.
	growthMin = 16 << 10

	lz4Magic             = 0x184d2204
	lz4HeaderSizeMin     = 7
	lz4IndependentBlocks = 1 << 5 // in the flags, the byte behind the magic
)

var (
	errInflatesBeyond = errors.New("inflates beyond the limit")
	errAnnounced      = errors.New("announces more than its bytes can hold")
	errMagic          = errors.New("not an lz4 frame")
	errLinkedBlocks   = errors.New("lz4 frame of linked blocks")
)

// inflate decompresses src, with any codec but None, into dst[:0], which may grow. The error is
// errInflatesBeyond if the result exceeds limit.
//
// Compressed bytes are untrusted. If a format is read as a stream, the buffer doubles as it
// fills, up to limit. If the buffer must be allocated first, an announced size is used only as
// far as that many compressed bytes can produce it.
func inflate(dst []byte, c Codec, src []byte, limit int) ([]byte, error) {
	dst = dst[:0]
	switch c {
	case Gzip:
		return inflateGzip(dst, src, limit)
	case LZ4:
		return inflateLZ4(dst, src, limit)
	case Snappy:
		return inflateSnappy(dst, src, limit)
	case Zstd:
		return inflateZstd(dst, src, limit)
	default:
		return nil, errors.New("unknown codec")
	}
}

// gzipReader is a decompressor and its source, pooled together.
type gzipReader struct {
	source bytes.Reader
	gzip.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func inflateGzip(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer gzipReaders.Put(r)
	defer r.source.Reset(nil) // the pool must not hold the caller's memory
	r.source.Reset(src)
	if err := r.Reset(&r.source); err != nil {
		return nil, err
	}
	return inflateStream(dst, &r.Reader, limit)
}

// inflateLZ4 uses a new reader each time. A reader that was reset still has the last window of
// the previous frame, and a malicious frame could copy from it: one producer would read another's
// records. The library pools its large buffers.
//
// Frames of linked blocks are refused, as Kafka's brokers and clients do.
func inflateLZ4(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < lz4HeaderSizeMin || binary.LittleEndian.Uint32(src) != lz4Magic {
		return nil, errMagic
	}
	if src[4]&lz4IndependentBlocks == 0 {
		return nil, errLinkedBlocks
	}
	r := lz4.NewReader(bytes.NewReader(src))
	if err := r.Apply(lz4.ConcurrencyOption(1)); err != nil {
		return nil, err
	}
	return inflateStream(dst, r, limit)
}

// inflateStream reads r to its end.
func inflateStream(dst []byte, r io.Reader, limit int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) && len(dst) < limit {
			dst = grow(dst, len(dst)+1, limit)
		}
		room := dst[len(dst):min(cap(dst), limit)]
		full := len(room) == 0
		if full {
			room = make([]byte, 1) // to detect whether there is more
		}
		n, err := r.Read(room)
		if full && n > 0 {
			return nil, errInflatesBeyond
		}
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// grow returns a copy of b with twice the capacity, or with capacity for need bytes, whichever is
// larger, but at most limit.
func grow(b []byte, need, limit int) []byte {
	larger := make([]byte, len(b), min(max(2*cap(b), need, growthMin), limit))
	copy(larger, b)
	return larger
}
