package peer

import (
	"fmt"
	"io"
	"net"

	"github.com/klauspost/compress/zstd"
)

// compressAbove is the size from which a part of a message is worth compressing.
const compressAbove = 1 << 10

// compressor makes the bulk messages of a connection smaller. It belongs to the writer.
type compressor struct {
	encoder *zstd.Encoder
	plain   []byte
	late    []latePart // of the batch that is being taken
}

// latePart is a part of a message that is compressed once the queue is not held any more.
type latePart struct {
	header header
	pieces net.Buffers
}

func newCompressor() *compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return &compressor{encoder: e}
}

// flush puts all late parts into the batch, compressed where that makes them smaller.
func (c *compressor) flush(b *batch) {
	for _, p := range c.late {
		if p.header.kind == messageFrame && p.header.length >= compressAbove {
			c.plain = c.plain[:0]
			for _, piece := range p.pieces {
				c.plain = append(c.plain, piece...)
			}
			if small := c.encoder.EncodeAll(c.plain, make([]byte, 0, len(c.plain)/2)); len(small) < len(c.plain)/8*7 {
				p.header.compressed, p.header.length, p.pieces = true, uint32(len(small)), net.Buffers{small}
			}
		}
		b.header(p.header)
		for _, piece := range p.pieces {
			b.refer(piece)
		}
	}
	clear(c.late)
	c.late = c.late[:0]
}

// decompressor gives back what a compressor has made smaller. It belongs to the reader.
type decompressor struct {
	decoder *zstd.Decoder
	small   []byte
	plain   []byte
}

// read reads the payload of a compressed frame. What it returns is valid until the next call.
func (d *decompressor) read(from io.Reader, length uint32) ([]byte, error) {
	if d.decoder == nil {
		var err error
		if d.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPart), zstd.WithDecoderMaxWindow(maxPart)); err != nil {
			return nil, err
		}
	}
	d.small = grow(d.small[:0], int(length), 0)
	if _, err := io.ReadFull(from, d.small); err != nil {
		return nil, err
	}
	plain, err := d.decoder.DecodeAll(d.small, d.plain[:0])
	if err != nil || len(plain) == 0 || len(plain) > maxPart {
		return nil, fmt.Errorf("%w: a compressed payload of %d bytes cannot be read: %v", errBadFrame, length, err)
	}
	d.plain = plain
	return plain, nil
}
