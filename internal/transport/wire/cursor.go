package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// cursor reads a received message in place. The message consists of pieces of about 16 KiB, and a
// field may be cut between them. Every length is checked against the remaining bytes before
// memory is allocated for it.
type cursor struct {
	pieces mem.BufferSlice // the pieces after the current one
	piece  []byte          // the rest of the current one
	left   int             // the remaining bytes, including the current piece
	// inPlace is set if fields of bytes refer to the message, which is one piece.
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
		if n < 0 || n > c.left {
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

// length reads the length of a bytes field and checks that all its bytes are there.
func (c *cursor) length() (int, error) {
	n, err := c.varint()
	if err != nil || n > uint64(c.left) {
		return 0, errUnusual
	}
	return int(n), nil
}

// message reads a bytes field that is a message: each is called for each of its fields, and reads it.
func (c *cursor) message(each func(protowire.Number, protowire.Type) error) error {
	n, err := c.length()
	if err != nil {
		return err
	}
	behind := c.left - n
	for c.left = n; c.left > 0; {
		number, kind, err := c.field()
		if err != nil {
			return err
		}
		if err := each(number, kind); err != nil {
			return err
		}
	}
	c.left = behind
	return nil
}

// bytes reads a bytes field into dst[:0], which grows if necessary, unless the field can stay in
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

// copy moves the next len(dst) bytes to dst. The caller has checked that they are there.
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
