package wire

import (
	"encoding/binary"
	"strings"
)

// newStrandline counts append requests by gRPC or on a stream of its own
// (docs/stream-protocol.md): the first byte of the client says which.
func newStrandline(c *connection) (up, down dissector) {
	s := &strandlineUp{connection: c}
	return s, (*strandlineDown)(s)
}

// strandlineUp is the client's direction of a connection; strandlineDown is the other.
type strandlineUp struct {
	connection *connection
	up, down   dissector // nil until the client has said something
}

type strandlineDown strandlineUp

func (s *strandlineUp) feed(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if s.up == nil {
		if data[0] == leanMagic[0] {
			s.up, s.down = newLean(s.connection)
		} else {
			s.up, s.down = newGRPC(s.connection)
		}
	}
	return s.up.feed(data)
}

func (s *strandlineDown) feed(data []byte) error {
	if s.down == nil {
		return nil // no client has asked for this
	}
	return s.down.feed(data)
}

const (
	leanMagic   = "\xf5STREAM\n"
	leanHead    = 5
	leanCall    = 1
	leanMessage = 2
)

// newLean counts the messages of a stream of appends in both directions.
func newLean(c *connection) (up, down dissector) {
	appends := new(bool)
	requests := &leanFrames{skip: int64(len(leanMagic)), appends: appends, found: func() { c.request(0) }}
	answers := &leanFrames{appends: appends, found: func() { c.answer(0) }}
	return requests, answers
}

// leanFrames cuts one direction of a connection into frames: four bytes of length, one of
// kind, and the payload.
type leanFrames struct {
	appends *bool // the call of the connection is one of appends
	found   func()

	head []byte
	skip int64  // bytes of the magic or of a payload to come
	call []byte // the payload of a call as far as it is here; nil: no call has begun
}

func (f *leanFrames) feed(data []byte) error {
	for len(data) > 0 {
		if f.skip > 0 {
			n := min(f.skip, int64(len(data)))
			if f.call != nil {
				f.call = append(f.call, data[:min(n, int64(len(appendPath)+1-len(f.call)))]...)
			}
			f.skip, data = f.skip-n, data[n:]
			if f.skip == 0 && f.call != nil {
				method, _, _ := strings.Cut(string(f.call), "\n")
				*f.appends, f.call = method == appendPath, nil
			}
			continue
		}
		n := min(leanHead-len(f.head), len(data))
		f.head, data = append(f.head, data[:n]...), data[n:]
		if len(f.head) < leanHead {
			return nil
		}
		f.skip = int64(binary.LittleEndian.Uint32(f.head))
		switch f.head[4] {
		case leanCall:
			f.call = []byte{}
		case leanMessage:
			if *f.appends {
				f.found()
			}
		}
		f.head = f.head[:0]
	}
	return nil
}
