package record

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of the records section of a batch. The numbers are Kafka's: bits 0 to
// 2 of the batch attributes.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
	codecEnd
)

var codecNames = [codecEnd]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the codec's name as in Kafka's configuration.
func (c Codec) String() string {
	if !c.known() {
		return fmt.Sprintf("codec %d", uint8(c))
	}
	return codecNames[c]
}

// ParseCodec parses the result of String.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: use none, gzip, snappy, lz4 or zstd", name)
}

func (c Codec) known() bool { return c < codecEnd }

// deflate compresses src into dst[:0], which may grow, with any codec but None. Compressor states
// are large, so they are pooled.
func deflate(dst []byte, c Codec, src []byte) ([]byte, error) {
	switch c {
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		return deflateStream(dst, w, src)
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		return deflateStream(dst, w, src)
	case Snappy:
		// One raw block, as most clients write it. Kafka's Java client writes its own framing, but
		// reads a raw block, too.
		return snappy.Encode(dst[:cap(dst)], src), nil
	default:
		return zstdEncoder().EncodeAll(src, dst[:0]), nil
	}
}

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return newLZ4Writer() }}

	// zstdEncoder keeps one state for each processor.
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
)

// newLZ4Writer returns a writer of frames like those of Kafka's Java client: independent blocks
// of 64 KiB without a checksum, since the batch has one.
func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return w
}

// resetWriter is a compressor that can be reset.
type resetWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

func deflateStream(dst []byte, w resetWriter, src []byte) ([]byte, error) {
	sink := appender{dst[:0]}
	w.Reset(&sink)
	defer w.Reset(nil) // the pool must not hold the caller's memory
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return sink.bytes, nil
}

// appender is an io.Writer that appends to a slice.
type appender struct{ bytes []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.bytes = append(a.bytes, p...)
	return len(p), nil
}

// scratch is memory for the duration of one call, to decompress or compress into. A pooled one is
// never larger than scratchKept.
type scratch struct{ bytes []byte }

// scratchKept bounds the memory that a scratch keeps between calls, so that one large batch does
// not occupy memory permanently.
const scratchKept = 1 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) giveBack() {
	s.trim()
	scratches.Put(s)
}

func (s *scratch) trim() {
	if cap(s.bytes) > scratchKept {
		s.bytes = nil
	}
}
