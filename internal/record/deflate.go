package record

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

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
