package record

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/snappy"
)

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
