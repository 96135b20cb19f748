package record

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdBlockMax is the maximum decompressed size of a block of a zstd frame.
	zstdBlockMax = 128 << 10

	// zstdWindowMax admits the highest level of the zstd library. The window
	// itself costs nothing here: the output serves as the window.
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
	most, err := zstdBound(src)
	if err != nil {
		return nil, err
	}
	if room := min(most, limit); cap(dst) < room {
		dst = make([]byte, 0, room)
	}
	inflated, err := zstdDecoder().DecodeAll(src, dst[:0:min(cap(dst), limit)])
	if err != nil && most > limit {
		return nil, errInflatesBeyond
	}
	return inflated, err
}

var errZstdFrame = errors.New("zstd frame is cut short or malformed")

// zstdBound returns an upper bound of the decompressed size of a run of zstd frames. It iterates
// over the blocks: each has at most 128 KiB, or less if the window is smaller, or if it is stored
// or repeats one byte. The header of a frame, which may announce its size, is followed by
//
//	block header  u24, little-endian: 1 bit last, 2 bits type, 21 bits size
//	block         size bytes; one byte if the type is "repeated"
//	...
//	checksum      u32, if the header says so
func zstdBound(src []byte) (int, error) {
	total := 0
	for len(src) > 0 {
		var h zstd.Header
		if err := h.Decode(src); err != nil {
			return 0, err
		}
		if h.Skippable {
			size := uint64(h.HeaderSize) + uint64(h.SkippableSize)
			if size > uint64(len(src)) {
				return 0, errZstdFrame
			}
			src = src[size:]
			continue
		}
		block := zstdBlockMax
		if !h.SingleSegment {
			block = int(min(h.WindowSize, zstdBlockMax))
		}
		most, rest, err := zstdBlocksBound(src[h.HeaderSize:], block)
		if err != nil {
			return 0, err
		}
		if h.HasFCS {
			if h.FrameContentSize > uint64(most) {
				return 0, errAnnounced
			}
			most = int(h.FrameContentSize)
		}
		if h.HasCheckSum {
			if len(rest) < 4 {
				return 0, errZstdFrame
			}
			rest = rest[4:]
		}
		total += most
		src = rest
	}
	return total, nil
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
