package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// cursor reads a received message where it lies: in pieces of 16 KiB or so,
// anywhere between which a field may be cut. Every length is checked against
// what is left before anything is allocated by it.
type cursor struct {
	pieces mem.BufferSlice // after the current one
	piece  []byte          // what is left of the current one
	left   int             // bytes left in all, the current piece included
	// inPlace: fields of bytes refer to the message, which is one piece.
	inPlace bool
}

func newCursor(data mem.BufferSlice) *cursor {
	return &cursor{pieces: data, left: data.Len()}
}

// field reads the next tag.
func (c *cursor) field() (protowire.Number, protowire.Type, error) {
	tag, err := c.varint()
	if err != nil {
		return 0, 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if number < 1 {
		return 0, 0, errUnusual
	}
	return number, kind, nil
}

func (c *cursor) varint() (uint64, error) {
	if len(c.piece) >= 10 || len(c.piece) == c.left {
		v, n := protowire.ConsumeVarint(c.piece)
		if n < 0 {
			return 0, errUnusual
		}
		c.piece, c.left = c.piece[n:], c.left-n
		return v, nil
	}
	return c.varintAcrossPieces()
}

func (c *cursor) varintAcrossPieces() (uint64, error) {
	var encoded [10]byte
	for i := range encoded {
		if c.left == 0 {
			break
		}
		c.copy(encoded[i : i+1])
		if encoded[i] < 0x80 {
			v, n := protowire.ConsumeVarint(encoded[:i+1])
			if n < 0 {
				break
			}
			return v, nil
		}
	}
	return 0, errUnusual
}

// length reads the length of a bytes field, of which all bytes are there.
func (c *cursor) length() (int, error) {
	n, err := c.varint()
	if err != nil || n > uint64(c.left) {
		return 0, errUnusual
	}
	return int(n), nil
}

// bytes reads a bytes field into dst[:0], which grows if it must, unless it can stay in
// place.
func (c *cursor) bytes(dst []byte) ([]byte, error) {
	n, err := c.length()
	if err != nil {
		return nil, err
	}
	if c.inPlace {
		field := c.piece[:n:n]
		c.piece, c.left = c.piece[n:], c.left-n
		return field, nil
	}
	if cap(dst) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	c.copy(dst)
	return dst, nil
}

// copy moves the next len(dst) bytes to dst. The caller knows that they are
// there.
func (c *cursor) copy(dst []byte) {
	for len(dst) > 0 {
		if len(c.piece) == 0 {
			c.piece, c.pieces = c.pieces[0].ReadOnlyData(), c.pieces[1:]
			continue
		}
		n := copy(dst, c.piece)
		dst, c.piece, c.left = dst[n:], c.piece[n:], c.left-n
	}
}
