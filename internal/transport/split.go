package transport

import (
	"container/list"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// decideWithin is the time limit for the first bytes of a client.
	decideWithin = 10 * time.Second
	// maxUndecided limits the connections whose first bytes were not read yet, or that were not
	// accepted yet. With one more, the oldest is closed, so that silent clients cannot keep
	// others out.
	maxUndecided = 1024
	// acceptAgain is the pause after a failed accept, for example because of a lack of file
	// descriptors.
	acceptAgain = 20 * time.Millisecond
)

// Split divides the connections of one port by their first bytes, without losing bytes:
// connections that begin with one of magics go to the listener with the same index, all others to
// others. Closing one of the listeners closes its connections; closing all of them closes l.
func Split(l net.Listener, magics ...string) (sorted []net.Listener, others net.Listener) {
	s := &splitter{listener: l, ended: make(chan struct{}), open: len(magics) + 1}
	for _, magic := range magics {
		part := s.part(magic)
		s.magics = append(s.magics, part)
		sorted = append(sorted, part)
	}
	s.others = s.part("")
	s.tasks.Go(s.accept)
	return sorted, s.others
}

type splitter struct {
	listener net.Listener
	magics   []*part
	others   *part
	tasks    sync.WaitGroup
	ended    chan struct{} // closed when nothing more is accepted
	failure  error         // why; set before ended is closed

	mu        sync.Mutex
	open      int       // parts that are not closed
	undecided list.List // of *arrival, the oldest first
}

// arrival is a connection until it is accepted. After that it belongs to the caller of Accept:
// nothing here closes it, even if it is still in the list.
type arrival struct {
	net.Conn
	crowdedOut chan struct{} // closed when a newer one takes its place
	decided    bool          // it waits to be accepted and is closed by sort; guarded by mu
}

// part is one of the listeners.
type part struct {
	of     *splitter
	magic  string
	ready  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (s *splitter) part(magic string) *part {
	return &part{of: s, magic: magic, ready: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *part) Accept() (net.Conn, error) {
	select {
	case <-p.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-p.ready:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-p.of.ended:
		return nil, p.of.failure
	}
}

func (p *part) Addr() net.Addr { return p.of.listener.Addr() }

// Close closes this listener. The last Close waits until no goroutine runs.
func (p *part) Close() (err error) {
	p.once.Do(func() {
		close(p.closed)
		err = p.of.partClosed()
	})
	return err
}

func (s *splitter) partClosed() error {
	s.mu.Lock()
	s.open--
	last := s.open == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	err := s.listener.Close()
	s.tasks.Wait()
	return err
}

func (s *splitter) accept() {
	defer s.closeUndecided()
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			a := &arrival{Conn: conn, crowdedOut: make(chan struct{})}
			entry := s.enter(a)
			s.tasks.Go(func() {
				defer s.leave(entry)
				s.sort(a)
			})
		case errors.Is(err, net.ErrClosed), s.over():
			s.failure = err
			close(s.ended)
			return
		default:
			time.Sleep(acceptAgain)
		}
	}
}

// sort reads the first bytes of a connection and passes it to its listener.
func (s *splitter) sort(a *arrival) {
	conn := a.Conn
	_ = conn.SetReadDeadline(time.Now().Add(decideWithin)) // if it fails, so does the read
	var head []byte
	to, decided := s.of("")
	for !decided {
		more := make([]byte, len(to.magic)-len(head))
		n, err := conn.Read(more)
		head = append(head, more[:n]...)
		if err != nil && (len(head) == 0 || !errors.Is(err, io.EOF)) {
			_ = conn.Close()
			return
		}
		if to, decided = s.of(string(head)); err != nil && !decided {
			to, decided = s.others, true // a short message and its end
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	s.decide(a)
	select {
	case to.ready <- &sorted{Conn: conn, head: head}:
	case <-to.closed:
		_ = conn.Close()
	case <-a.crowdedOut:
		_ = conn.Close()
	case <-s.ended:
		_ = conn.Close()
	}
}

// of returns the listener for a connection that begins with head. If decided is false, more bytes
// are needed, and to is only a candidate.
func (s *splitter) of(head string) (to *part, decided bool) {
	for _, p := range s.magics {
		if strings.HasPrefix(p.magic, head) {
			return p, head == p.magic
		}
	}
	return s.others, true
}

func (s *splitter) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0
}

func (s *splitter) enter(a *arrival) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.undecided.Len() >= maxUndecided {
		oldest := s.undecided.Remove(s.undecided.Front()).(*arrival)
		close(oldest.crowdedOut)
		oldest.closeUndecided()
	}
	return s.undecided.PushBack(a)
}

func (s *splitter) decide(a *arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.decided = true
}

func (s *splitter) leave(entry *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undecided.Remove(entry) // does nothing if it was the oldest, and closed
}

func (s *splitter) closeUndecided() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.undecided.Front(); e != nil; e = e.Next() {
		e.Value.(*arrival).closeUndecided()
	}
}

// closeUndecided closes the connection if its first bytes are still awaited. The caller holds mu.
func (a *arrival) closeUndecided() {
	if !a.decided {
		_ = a.Close()
	}
}

// sorted is a connection whose first bytes were read.
type sorted struct {
	net.Conn
	head []byte // what of them is still to be given
}

func (c *sorted) Read(b []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.head)
	c.head = c.head[n:]
	return n, nil
}

// Unread returns the connection itself, and the bytes that were read from it and not returned.
func (c *sorted) Unread() (net.Conn, []byte) { return c.Conn, c.head }

// WritesTo returns the connection that writes go to unchanged.
func (c *sorted) WritesTo() net.Conn { return c.Conn }
