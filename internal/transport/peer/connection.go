package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The reasons of this side for closing a connection.
var (
	errReplaced  = errors.New("a newer connection from the same node replaced it")
	errRemoved   = errors.New("this node no longer connects with the node")
	errMoved     = errors.New("the node has another address now")
	errOtherSelf = errors.New("this node has another identity now")
	errAsked     = errors.New("the call is answered")
)

// connection carries frames, both ways, between the end of its handshake and close. One goroutine
// reads (run), one writes, and each call that is being answered has a goroutine.
type connection struct {
	mesh    *Mesh
	conn    net.Conn
	from    NodeID // the other node; 0 if it has not joined a cluster
	dialled string // the address if this side dialled
	version uint32 // version of the protocol on this connection
	// compresses is set if messages to the other side may be compressed.
	compresses bool
	// takesLarge is set if the other side reads the lane for large messages.
	takesLarge bool
	queue      *queue
	timed      *timedReader
	frames     frameReader
	calls      calls
	answers    answers
	traffic    *traffic // counters of the link

	context context.Context // ended by close
	end     context.CancelCauseFunc
	done    chan struct{} // closed when run has ended
}

// traffic counts bytes, with those of the frames' headers.
type traffic struct{ sent, received, dropped atomic.Uint64 }

// newConnection returns a connection. If asking is set, the connection carries calls only, and if
// visitor is set, only short ones.
func newConnection(m *Mesh, timed *timedReader, buffered *bufio.Reader, from NodeID, proved string, asking, visitor bool) *connection {
	c := &connection{mesh: m, conn: timed.conn, from: from, queue: newQueue(m.options.Memory), timed: timed, traffic: &traffic{}, done: make(chan struct{})}
	c.frames = frameReader{
		from: buffered, callsOnly: asking, visitor: visitor, receiving: receiving{room: m.options.Receiving, beyond: &m.beyond}, dropped: c.drop,
	}
	if c.answers.most = maxAnsweringBytes; visitor {
		c.answers.most = maxVisitorBytes
	}
	c.calls.waiting = map[uint64]chan reply{}
	c.answers.running = map[uint64]context.CancelFunc{}
	c.context, c.end = context.WithCancelCause(context.WithValue(m.context, provedName{}, proved))
	return c
}

// count makes the connection count its bytes in to. It must be called before run.
func (c *connection) count(to *traffic) { c.traffic, c.timed.traffic = to, to }

// run serves the connection until it ends and returns the reason. It reads in the calling
// goroutine.
func (c *connection) run() error {
	stop := context.AfterFunc(c.context, func() { _ = c.conn.Close() })
	defer stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.close(c.write())
	}()
	c.close(c.read())
	<-written
	c.queue.close()
	_ = c.conn.Close()
	close(c.done)
	return context.Cause(c.context)
}

// close ends the connection. If it is called more than once, the first reason is kept.
func (c *connection) close(reason error) {
	c.end(reason)
	c.queue.close()
}

// processGone reports whether reason means that the other side closed the connection, as the
// system does when its process dies, and not that it was silent for too long.
func processGone(reason error) bool {
	return errors.Is(reason, io.EOF) || errors.Is(reason, io.ErrUnexpectedEOF) ||
		errors.Is(reason, syscall.ECONNRESET) || errors.Is(reason, syscall.EPIPE)
}

func (c *connection) read() error {
	defer c.frames.receiving.close()
	for {
		h, payload, err := c.frames.next()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("nothing was received for %v: %w", c.mesh.pace.silence, err)
			}
			return fmt.Errorf("receive: %w", err)
		}
		if err := c.receive(h, payload); err != nil {
			return err
		}
	}
}

// drop handles a message for which there is no memory. The call that it belongs to fails; the
// sender of a message for a replica sends it again. An error ends the connection, as an error of
// answer does: otherwise the caller would wait in vain.
func (c *connection) drop(h header) error {
	c.mesh.log.Debug("a message of another node is dropped: there is no memory to receive it", "node", c.from, "log", h.log, "bytes", uint64(h.length)+uint64(h.rest))
	switch h.kind {
	case callFrame:
		if !c.queue.put(header{kind: failureFrame, lane: urgent, log: h.log}, net.Buffers{[]byte(errNoMemory.Error())}) {
			return errNoMemory
		}
	case answerFrame, failureFrame:
		c.calls.resolve(h.log, reply{err: fmt.Errorf("receive the answer: %w", errNoMemory)})
	}
	return nil
}

// errNoMemory is the error of a call if there is no room for the request or the answer.
var errNoMemory = errors.New("too much of other nodes is being received; try again")

func (c *connection) receive(h header, payload []byte) error {
	switch h.kind {
	case messageFrame:
		if deliver := c.mesh.options.Deliver; deliver != nil {
			deliver(c.from, h.log, h.replica, payload)
		}
	case callFrame:
		return c.answer(h.log, payload)
	case cancelFrame:
		c.answers.cancel(h.log)
	case answerFrame:
		c.calls.resolve(h.log, reply{payload: payload})
	case failureFrame:
		c.calls.resolve(h.log, reply{err: &RemoteError{Text: string(payload)}})
	case pingFrame:
	}
	return nil
}

func (c *connection) write() error {
	b := newBatch()
	var small *compressor
	if c.compresses {
		small = newCompressor()
	}
	idle := time.NewTimer(c.mesh.pace.ping)
	defer idle.Stop()
	for {
		select {
		case <-c.context.Done():
			return context.Cause(c.context)
		case <-c.queue.wake:
			if b.compressor = nil; small != nil && c.mesh.options.Compress(c.from) {
				b.compressor = small
			}
			c.queue.take(b)
			if b.compressor != nil {
				small.flush(b)
			}
		case <-idle.C:
			b.header(header{kind: pingFrame, lane: urgent})
		}
		n, err := b.writeTo(c.conn)
		c.traffic.sent.Add(uint64(n))
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		idle.Reset(c.mesh.pace.ping)
	}
}

// timedReader limits the time of a read without a byte.
type timedReader struct {
	conn    net.Conn
	head    []byte        // bytes that were read from the connection before
	silence time.Duration // 0: the deadline of the connection applies
	traffic *traffic      // may be nil
}

func (r *timedReader) Read(b []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(b, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.silence > 0 {
		if err := r.conn.SetReadDeadline(time.Now().Add(r.silence)); err != nil {
			return 0, err
		}
	}
	n, err := r.conn.Read(b)
	if r.traffic != nil {
		r.traffic.received.Add(uint64(n))
	}
	return n, err
}

// calls holds the calls of this side that wait for an answer.
type calls struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan reply
}

type reply struct {
	payload []byte
	err     error
}

func (s *calls) begin() (uint64, chan reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	answered := make(chan reply, 1)
	s.waiting[s.last] = answered
	return s.last, answered
}

func (s *calls) forget(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, number)
}

// resolve passes the reply to the caller if it still waits.
func (s *calls) resolve(number uint64, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered := s.waiting[number]; answered != nil {
		answered <- r
		delete(s.waiting, number)
	}
}
