package peer

import (
	"math"
	"sync/atomic"
)

// Room is a part of the memory that connections share with other users.
type Room interface {
	Memory
	// Used returns the bytes that are in use by all of them, Size the intended limit.
	Used() int64
	Size() int64
}

func (unbounded) Used() int64 { return 0 }
func (unbounded) Size() int64 { return math.MaxInt64 }

// receiving counts the incomplete messages of one connection, each with the bytes that it
// announces. The messages of one lane do not overlap.
type receiving struct {
	room Room
	// beyond is set while one large message of all connections is received without room for it: a
	// follower needs its snapshot even if there is little memory, but any number of them at once
	// would be too much.
	beyond *atomic.Bool
	held   int64 // bytes of all lanes
	lanes  [lanes]struct {
		bytes  int64
		beyond bool
	}
}

// begin counts a message. It returns false if the message must be dropped, because its connection
// has more than its share. The only message of a connection always has room, unless it is large.
// A large message needs room, or is the one that may be received without it; it takes minutes to
// arrive, and the entries of all other logs do not wait for it.
func (r *receiving) begin(l lane, bytes int64) bool {
	beyond := false
	switch {
	case l != large:
		if others := r.held - r.lanes[large].bytes; others > 0 && others+bytes > r.room.Share(2*MaxMessage) {
			return false
		}
	case bytes > r.room.Size()-r.room.Used():
		if beyond = r.beyond.CompareAndSwap(false, true); !beyond {
			return false
		}
	}
	r.lanes[l].bytes, r.lanes[l].beyond = bytes, beyond
	r.room.Changed(r.held, r.held+bytes)
	r.held += bytes
	return true
}

// end removes the message of a lane from the count, if there is one.
func (r *receiving) end(l lane) {
	if of := &r.lanes[l]; of.bytes > 0 {
		r.room.Changed(r.held, r.held-of.bytes)
		r.held -= of.bytes
		if of.beyond {
			r.beyond.Store(false)
		}
		of.bytes, of.beyond = 0, false
	}
}

// close removes all messages of the connection from the count, since the connection has ended.
func (r *receiving) close() {
	for l := range lane(lanes) {
		r.end(l)
	}
}
