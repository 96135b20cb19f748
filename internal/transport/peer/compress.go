package peer

import (
	"fmt"
	"io"
	"net"

	"github.com/klauspost/compress/zstd"
)

// compressAbove is the size from which a part of a message is compressed.
const compressAbove = 1 << 10

// compressor compresses the bulk messages of a connection. Only the writer uses it.
type compressor struct {
	encoder *zstd.Encoder
	plain   []byte
	late    []latePart // parts of the batch that is being filled
}

// latePart is a part of a message that is compressed after the queue was unlocked.
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

// flush adds all late parts to the batch, each compressed if that makes it smaller.
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

// decompressor decompresses the output of a compressor. Only the reading goroutine uses it.
type decompressor struct {
	decoder *zstd.Decoder
	small   []byte
	plain   []byte
}

// read reads and decompresses the payload of a frame. The result is valid until the next call.
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
