package rpc

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// dataCounter counts those bytes of what a connection receives that belong to messages: over HTTP/2
// the payload of DATA frames, as nobody takes the others out of the count, and all of another connection.
type dataCounter struct {
	// matched is how much of HTTP/2's preface has come; other: something else has.
	matched int
	other   bool

	head [frameOverhead]byte // of a frame
	got  int                 // so much of head has come
	left int                 // so much of the frame's payload has not come
	data bool                // it is a DATA frame
}

// count counts those of b, which has been received next, and the DATA frames that begin there.
func (c *dataCounter) count(b []byte) (n, frames int) {
	for ; !c.other && c.matched < len(http2.ClientPreface) && len(b) > 0; b = b[1:] {
		if b[0] != http2.ClientPreface[c.matched] {
			c.other = true
			n += c.matched
			break
		}
		c.matched++
	}
	if c.other {
		return n + len(b), 0
	}
	for len(b) > 0 {
		if c.left == 0 {
			taken := copy(c.head[c.got:], b)
			c.got, b = c.got+taken, b[taken:]
			if c.got == len(c.head) {
				c.got, c.left = 0, int(binary.BigEndian.Uint32(c.head[:4])>>8)
				c.data = http2.FrameType(c.head[3]) == http2.FrameData
				if c.data {
					frames++
				}
			}
			continue
		}
		taken := min(c.left, len(b))
		if c.data {
			n += taken
		}
		c.left, b = c.left-taken, b[taken:]
	}
	return n, frames
}
