package rpc

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// dataCounter counts the received bytes of a connection that belong to messages: over HTTP/2 the
// payload of DATA frames, because nothing subtracts other bytes later; on any other connection all
// bytes.
type dataCounter struct {
	// matched is the length of the received part of HTTP/2's preface. other is set if anything else
	// was received.
	matched int
	other   bool

	head [frameOverhead]byte // of a frame
	got  int                 // received bytes of head
	left int                 // bytes of the frame's payload that were not received yet
	data bool                // it is a DATA frame
}

// count counts these bytes in b, the next received data, and the DATA frames that begin there.
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
