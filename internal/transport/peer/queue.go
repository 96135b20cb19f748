package peer

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net"
	"sync"
)

// queue holds the messages that wait for the writer of a connection, in lanes.
type queue struct {
	wake   chan struct{} // holds an element while there may be a message
	memory Memory

	mu     sync.Mutex
	room   sync.Cond // signaled when messages were taken or the queue was closed
	closed bool
	lanes  [lanes]line
	held   int64 // bytes reported to memory
}

// line holds the messages of one lane in order.
type line struct {
	items []outgoing
	head  int   // index of the first item that was not taken
	bytes int64 // weight of the items from head, without the parts that were taken
	most  int64 // limit of bytes if there is enough memory
}

// outgoing is a message. Its bytes from (piece, offset) on have not been sent.
type outgoing struct {
	header  header // length and rest are set for each part
	message net.Buffers
	left    int
	piece   int
	offset  int
	sum     uint32 // CRC of the bytes that were taken; only of a large message
}

func newQueue(m Memory) *queue {
	q := &queue{wake: make(chan struct{}, 1), memory: m}
	q.room.L = &q.mu
	q.lanes[bulk].most = bulkQueueBytes
	q.lanes[urgent].most = urgentQueueBytes
	q.lanes[large].most = largeQueueBytes
	return q
}

// count reports the size of the lanes to the memory. The caller holds mu.
func (q *queue) count() {
	now := q.lanes[bulk].bytes + q.lanes[urgent].bytes + q.lanes[large].bytes
	q.memory.Changed(q.held, now)
	q.held = now
}

// put queues a message if its lane has room.
func (q *queue) put(h header, message net.Buffers) bool {
	item := newOutgoing(h, message)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.putLocked(item)
}

// putLarge queues a message for the large lane. It replaces a message for the same replica of
// which nothing has been taken: if a state is sent again, only the newest is of use. A message
// that has been taken in part is completed first: otherwise no message would arrive if states
// followed each other faster than the link carries one.
//
// Two messages of the same size whose first parts are equal are the same message; the rest is not
// compared, since the first part names the state that the rest consists of. The caller is the
// loop of a replica. It sends hundreds of MiB each time that Raft asks for it, not always in the
// same memory.
func (q *queue) putLarge(h header, message net.Buffers) bool {
	h.lane, h.first = large, true
	item := newOutgoing(h, append(message[:len(message):len(message)], make([]byte, sumSize))) // see takePart
	q.mu.Lock()
	defer q.mu.Unlock()
	l := &q.lanes[large]
	for i := l.head; i < len(l.items); i++ {
		before := &l.items[i]
		if before.header.log != h.log || before.header.replica != h.replica {
			continue
		}
		if size(before.message) == item.left && bytes.Equal(before.message[0], message[0]) {
			return !q.closed
		}
		if !before.header.first {
			continue
		}
		l.bytes += item.weight() - before.weight()
		*before = item
		q.count()
		return !q.closed
	}
	return q.putLocked(item)
}

// putWhenRoom waits until the lane of the message has room, and queues it. It returns false if
// the queue is closed.
func (q *queue) putWhenRoom(h header, message net.Buffers) bool {
	item := newOutgoing(h, message)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if q.putLocked(item) {
			return true
		}
		q.room.Wait()
	}
	return false
}

func (q *queue) putLocked(item outgoing) bool {
	l := &q.lanes[item.header.lane]
	if q.closed || l.len() >= laneMessages || l.len() > 0 && l.bytes+item.weight() > q.memory.Share(l.most) {
		return false
	}
	l.items = append(l.items, item)
	l.bytes += item.weight()
	q.count()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take fills the batch: urgent messages first, then bulk, then large ones. It takes at least one
// part of each lane, because many messages of one lane would otherwise starve the next.
func (q *queue) take(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes[urgent].take(b, urgent, batchBytes)
	q.lanes[bulk].take(b, bulk, max(batchBytes, b.bytes+1))
	q.lanes[large].take(b, large, max(batchBytes, b.bytes+1))
	q.count()
	if q.lanes[urgent].len()+q.lanes[bulk].len()+q.lanes[large].len() > 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	q.room.Broadcast()
}

func (q *queue) bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// close drops the queued messages.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.lanes = [lanes]line{}
	q.count()
	q.room.Broadcast()
}

func (l *line) len() int { return len(l.items) - l.head }

// take moves parts to the batch while the batch has less than limit bytes.
func (l *line) take(b *batch, name lane, limit int) {
	for l.len() > 0 && b.bytes < limit && b.hasRoom(name) {
		item := &l.items[l.head]
		before := item.weight()
		item.takePart(b)
		if item.left > 0 {
			l.bytes -= before - item.weight()
			continue
		}
		l.bytes -= before
		*item = outgoing{}
		l.head++
	}
	switch {
	case l.len() == 0:
		l.items, l.head = l.items[:0], 0
		if cap(l.items) > 1024 { // a burst has ended
			l.items = nil
		}
	case l.head > len(l.items)/2:
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
}

func newOutgoing(h header, message net.Buffers) outgoing {
	return outgoing{header: h, message: message, left: size(message)}
}

// weight returns the weight of a message in the queue, which is not 0 even without bytes.
func (o *outgoing) weight() int64 { return int64(o.left) + headerSize }

// takePart moves the next part to the batch.
func (o *outgoing) takePart(b *batch) {
	length := min(o.left, maxPart)
	if o.header.lane == large {
		length = min(o.left, largePart)
	}
	o.left -= length
	o.header.length, o.header.rest = uint32(length), uint32(o.left)
	b.begin(o.header)
	o.header.first = false
	for length > 0 {
		if o.header.lane == large && o.piece == len(o.message)-1 && o.offset == 0 {
			binary.LittleEndian.PutUint32(o.message[o.piece], o.sum)
		}
		piece := o.message[o.piece][o.offset:]
		if len(piece) > length {
			piece = piece[:length]
			o.offset += length
		} else {
			o.piece, o.offset = o.piece+1, 0
		}
		if o.header.lane == large {
			o.sum = crc32.Update(o.sum, castagnoli, piece)
		}
		b.piece(o.header.lane, piece)
		length -= len(piece)
	}
}

func size(message net.Buffers) int {
	n := 0
	for _, piece := range message {
		n += len(piece)
	}
	return n
}
