package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// growthMin is the initial size of a buffer.
	growthMin = 16 << 10

	// pieceBytes is how much is inflated, or copied, before other goroutines get the processor: nothing interrupts a
	// decompressor, and an append waits for a processor several times. A block of LZ4 or snappy may have more.
	pieceBytes = 32 << 10

	lz4Magic             = 0x184d2204
	lz4HeaderSizeMin     = 7
	lz4IndependentBlocks = 1 << 5 // in the flags, the byte behind the magic
	lz4BlockSums         = 1 << 4
	lz4Size              = 1 << 3
	lz4Sum               = 1 << 2
	lz4Dictionary        = 1 << 0
	lz4SmallestBlocks    = 4 // of 64 KiB, in the byte behind the flags
)

var (
	errInflatesBeyond = errors.New("inflates beyond the limit")
	errAnnounced      = errors.New("announces more than its compressed bytes can contain")
	errMagic          = errors.New("not an lz4 frame")
	errLinkedBlocks   = errors.New("lz4 frame with linked blocks")
)

// claimsAtMost reports whether compressed bytes may inflate to at most limit, and need no larger buffer for it, by what
// their headers say. An inflate with the same limit finds out whether that is true.
func claimsAtMost(c Codec, src []byte, limit int) bool {
	switch c {
	case Gzip: // ends with its size
		return len(src) >= 4 && uint64(binary.LittleEndian.Uint32(src[len(src)-4:])) <= uint64(limit)
	case LZ4: // the reader has a buffer for a block of each frame
		return isOneFrameOfSmallBlocks(src)
	case Zstd:
		var h zstd.Header
		return h.Decode(src) == nil && (!h.HasFCS || h.FrameContentSize <= uint64(limit))
	default: // each block of snappy has its size, and is not inflated beyond the limit
		return true
	}
}

// isOneFrameOfSmallBlocks reports whether src is one LZ4 frame, whose blocks inflate to 64 KiB at most, and nothing behind it.
// What follows the header, which is longer by a size and the id of a dictionary if the flags say so, is
//
//	u32  size of a block, little-endian, the highest bit: not compressed; 0: the end
//	     the block, and a checksum of 4 bytes if the flags say so
//	...
//	u32  checksum, if the flags say so
func isOneFrameOfSmallBlocks(src []byte) bool {
	if len(src) < lz4HeaderSizeMin || src[5]>>4&7 > lz4SmallestBlocks {
		return false
	}
	flags, at := src[4], lz4HeaderSizeMin
	has := func(flag byte, size int) int {
		if flags&flag != 0 {
			return size
		}
		return 0
	}
	for at += has(lz4Size, 8) + has(lz4Dictionary, 4); at+4 <= len(src); {
		size := int(binary.LittleEndian.Uint32(src[at:]) &^ (1 << 31))
		if at += 4; size == 0 {
			return at+has(lz4Sum, 4) == len(src)
		}
		at += size + has(lz4BlockSums, 4)
	}
	return false
}

// inflate decompresses src, with any codec but None, into dst[:0], which may grow. The error is
// errInflatesBeyond if the result exceeds limit.
//
// Compressed bytes are untrusted. If a format is read as a stream, the buffer doubles as it
// fills, up to limit. If the buffer must be allocated first, an announced size is used only as
// far as that many compressed bytes can produce it.
//
// It yields the processor after each pieceBytes.
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
	if !claimsAtMost(Gzip, src, limit) { // it would be malformed if it had less
		return nil, errInflatesBeyond
	}
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

// inflateStream appends all of r to dst.
func inflateStream(dst []byte, r io.Reader, limit int) ([]byte, error) {
	var probe [1]byte // whether there is more behind what dst has room for
	for piece := len(dst); ; {
		if len(dst)-piece >= pieceBytes {
			runtime.Gosched()
			piece = len(dst)
		}
		room := dst[len(dst):min(cap(dst), limit, piece+pieceBytes)]
		full := len(room) == 0
		if full {
			room = probe[:]
		}
		n, err := r.Read(room)
		switch {
		case full && n > 0 && len(dst) >= limit:
			return nil, errInflatesBeyond
		case full && n > 0:
			dst = append(grow(dst, len(dst)+1, limit), probe[0])
		default:
			dst = dst[:len(dst)+n]
		}
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
	return appendInPieces(make([]byte, 0, min(max(2*cap(b), need, growthMin), limit)), b)
}

// appendInPieces appends b to dst, which has room for it.
func appendInPieces(dst, b []byte) []byte {
	for ; len(b) > pieceBytes; b = b[pieceBytes:] {
		dst = append(dst, b[:pieceBytes]...)
		runtime.Gosched()
	}
	return append(dst, b...)
}

// xerialMagic begins the framing that Kafka's Java client puts around snappy blocks, named after
// the library that it uses. A raw block never begins like this: these bytes would announce a
// length and then copy from before the beginning.
//
//	 0  magic           8 bytes
//	 8  u32  version    big-endian
//	12  u32  lowest version that can read it
//	16  blocks, each: u32 length, big-endian, and a raw snappy block
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderSize = 16

// snappyGrowthMax is an upper bound of the decompressed bytes per byte of a snappy block: the
// best element takes 3 bytes and copies 64.
const snappyGrowthMax = 22

var errXerial = errors.New("xerial framing is cut short")

func inflateSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return appendSnappyBlock(dst, src, limit)
	}
	if len(src) < xerialHeaderSize {
		return nil, errXerial
	}
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, errXerial
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return nil, errXerial
		}
		var err error
		if dst, err = appendSnappyBlock(dst, src[:n], limit); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return dst, nil
}

// appendSnappyBlock decompresses one raw block behind dst. The strict decoder is slower, but
// refuses an extension of the format that only its own library reads: such a batch would stop
// other readers of the log.
func appendSnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > len(block)*snappyGrowthMax {
		return nil, errAnnounced
	}
	end := len(dst) + n
	if end > limit {
		return nil, errInflatesBeyond
	}
	if cap(dst) < end {
		dst = grow(dst, end, limit)
	}
	if _, err := snappy.DecodeStrict(dst[len(dst):end:end], block); err != nil {
		return nil, err
	}
	return dst[:end], nil
}

const (
	// zstdBlockMax is the maximum decompressed size of a block of a zstd frame.
	zstdBlockMax = 128 << 10

	// zstdWindowMax admits the highest level of the zstd library. Its decoders, also those of Kafka's clients, refuse
	// larger windows by default, so such a batch would stop other readers of the log.
	zstdWindowMax = 128 << 20
)

// zstdDecoder keeps one state for each processor.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(zstdWindowMax),
		zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

// inflateZstd allocates the maximum decompressed size of the frames first, because the library
// does not distinguish a lack of room from malformed data. If that size exceeds limit, any error
// counts as a lack of room.
func inflateZstd(dst, src []byte, limit int) ([]byte, error) {
	most, announced, err := zstdBound(src)
	switch {
	case err != nil:
		return nil, err
	case announced && most > limit:
		return nil, errInflatesBeyond
	}
	if room := min(most, limit); cap(dst) < room {
		dst = make([]byte, 0, room)
	}
	var inflated []byte
	if most <= 2*pieceBytes {
		inflated, err = zstdDecoder().DecodeAll(src, dst[:0:min(cap(dst), limit)])
	} else {
		inflated, err = inflateZstdFrames(dst, src, limit)
	}
	if err != nil && most > limit {
		return nil, errInflatesBeyond
	}
	return inflated, err
}

// zstdStream decompresses a frame in pieces. Its memory is the frame's window.
type zstdStream struct {
	*zstd.Decoder
	header, blocks bytes.Reader
	window         int // the largest so far
}

var zstdStreams = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
	if err != nil {
		panic(err) // the options are constants
	}
	return &zstdStream{Decoder: d}
}}

// zstdWindowKept bounds the memory that a stream keeps between calls.
const zstdWindowKept = 4 << 20

func inflateZstdFrames(dst, src []byte, limit int) ([]byte, error) {
	s := zstdStreams.Get().(*zstdStream)
	defer func() {
		_ = s.Reset(nil) // the pool must not hold the caller's memory
		s.header.Reset(nil)
		s.blocks.Reset(nil)
		if s.window <= zstdWindowKept {
			zstdStreams.Put(s)
		}
	}()
	for len(src) > 0 {
		f, err := nextZstdFrame(src)
		if err != nil {
			return nil, err
		}
		if src = f.rest; f.header.Skippable {
			continue
		}
		if f.header.HasFCS && f.most > limit-len(dst) {
			return nil, errInflatesBeyond // or the window would be larger than the limit
		}
		if err := s.begin(f, limit-len(dst)); err != nil {
			return nil, err
		}
		if dst, err = inflateStream(dst, s, limit); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// begin begins a frame that may inflate to limit bytes. It needs no larger window than it has bytes, whatever it
// announces: a window is allocated as a whole.
func (s *zstdStream) begin(f zstdFrame, limit int) error {
	head := f.bytes[:f.header.HeaderSize]
	window, needed := f.most, max(min(f.most, limit), zstdBlockMax)
	if !f.header.SingleSegment {
		if f.header.WindowSize > uint64(needed) {
			head = bytes.Clone(head)
			head[zstdWindowAt] = zstdWindow(needed)
		}
		window = int(f.header.WindowSize)
	}
	s.window = max(s.window, window)
	s.header.Reset(head)
	s.blocks.Reset(f.bytes[f.header.HeaderSize:])
	return s.Reset(io.MultiReader(&s.header, &s.blocks))
}

// zstdWindowAt is the position of the window's size in the header of a frame that is not a single segment: 5 bits exponent of 1
// KiB, and 3 bits eighths of that, which are added.
const zstdWindowAt = 5

// zstdWindow encodes the smallest window of at least size bytes.
func zstdWindow(size int) byte {
	for b := byte(0); ; b++ {
		if base := 1 << (10 + b>>3); base+base/8*int(b&7) >= size {
			return b
		}
	}
}

var (
	errZstdFrame = errors.New("zstd frame is cut short or malformed")
	errWindow    = fmt.Errorf("zstd frame with a window above %d MiB", zstdWindowMax>>20)
)

// zstdBound returns an upper bound of the decompressed size of a run of zstd frames. announced: they have that size, or are malformed.
func zstdBound(src []byte) (most int, announced bool, err error) {
	announced = true
	for len(src) > 0 {
		f, err := nextZstdFrame(src)
		if err != nil {
			return 0, false, err
		}
		most += f.most
		announced = announced && (f.header.HasFCS || f.header.Skippable)
		src = f.rest
	}
	return most, announced, nil
}

// zstdFrame is a frame, and most an upper bound of its decompressed size.
type zstdFrame struct {
	header      zstd.Header
	bytes, rest []byte // of the frame, and behind it
	most        int
}

// nextZstdFrame returns the first of a run of zstd frames. To bound its decompressed size, it iterates
// over the blocks: each has at most 128 KiB, or less if the window is smaller, or if it is stored
// or repeats one byte. The header of a frame, which may announce its size, is followed by
//
//	block header  u24, little-endian: 1 bit last, 2 bits type, 21 bits size
//	block         size bytes; one byte if the type is "repeated"
//	...
//	checksum      u32, if the header says so
func nextZstdFrame(src []byte) (f zstdFrame, err error) {
	h := &f.header
	if err := h.Decode(src); err != nil {
		return f, err
	}
	if h.Skippable {
		size := uint64(h.HeaderSize) + uint64(h.SkippableSize)
		if size > uint64(len(src)) {
			return f, errZstdFrame
		}
		f.bytes, f.rest = src[:size], src[size:]
		return f, nil
	}
	block := zstdBlockMax
	if !h.SingleSegment {
		if h.WindowSize > zstdWindowMax {
			return f, errWindow
		}
		block = int(min(h.WindowSize, zstdBlockMax))
	}
	most, rest, err := zstdBlocksBound(src[h.HeaderSize:], block)
	if err != nil {
		return f, err
	}
	if h.HasFCS {
		if h.FrameContentSize > uint64(most) {
			return f, errAnnounced
		}
		most = int(h.FrameContentSize)
	}
	if h.HasCheckSum {
		if len(rest) < 4 {
			return f, errZstdFrame
		}
		rest = rest[4:]
	}
	f.most, f.rest, f.bytes = most, rest, src[:len(src)-len(rest)]
	return f, nil
}

// zstdBlocksBound iterates over the blocks of one frame, in which a compressed block has at most
// block bytes, and returns what follows the last one.
func zstdBlocksBound(blocks []byte, block int) (most int, rest []byte, err error) {
	const stored, repeated, compressed = 0, 1, 2
	for last := false; !last; {
		if len(blocks) < 3 {
			return 0, nil, errZstdFrame
		}
		header := uint32(binary.LittleEndian.Uint16(blocks)) | uint32(blocks[2])<<16
		blocks = blocks[3:]
		last = header&1 != 0
		size := int(header >> 3)
		switch header >> 1 & 3 {
		case stored:
			most += size
		case repeated:
			most += min(size, block)
			size = 1
		case compressed:
			most += block
		default:
			return 0, nil, errZstdFrame
		}
		if size > len(blocks) {
			return 0, nil, errZstdFrame
		}
		blocks = blocks[size:]
	}
	return most, blocks, nil
}
