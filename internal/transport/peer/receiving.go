package peer

import (
	"math"
	"sync/atomic"
)

// Room is a part of the memory that connections share, and others with them.
type Room interface {
	Memory
	// Used is what all hold of it, Size what they should hold at most.
	Used() int64
	Size() int64
}

func (unbounded) Used() int64 { return 0 }
func (unbounded) Size() int64 { return math.MaxInt64 }

// receiving counts the messages of one connection that have begun and not ended, each with the bytes that it
// announces. Those of a lane come one after the other.
type receiving struct {
	room Room
	// beyond is taken while one large message of all connections has no room and is received all the same:
	// a follower needs its snapshot however little memory there is, and any number of them at once is too much.
	beyond *atomic.Bool
	held   int64 // of all lanes
	lanes  [lanes]struct {
		bytes  int64
		beyond bool
	}
}

// begin counts a message. False: it has to be dropped, since its connection has more than its share. The only one
// of a connection that is not large has room always. A large one fits into the room, or is the one that need not;
// it takes minutes to arrive, and the entries of all other logs do not wait for it.
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

// end counts the message of a lane no longer, if there is one.
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

// close counts none of them any longer: their connection has ended.
func (r *receiving) close() {
	for l := range lane(lanes) {
		r.end(l)
	}
}
