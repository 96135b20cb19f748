package peer

import (
	"container/list"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// decideWithin closes a client that has not sent enough to be told apart.
	decideWithin = 10 * time.Second
	// maxUndecided bounds the connections that are not yet told apart, or not
	// yet accepted. With one more, the oldest is closed: silent clients cannot
	// keep others out.
	maxUndecided = 1024
	// acceptAgain is the wait after a failed accept, such as for want of file
	// descriptors.
	acceptAgain = 20 * time.Millisecond
)

// Split sorts the connections of one port: those that begin as connections of
// peers do go to peers, all others to others, without losing bytes. Closing one
// of the two closes what comes for it; closing both closes l.
func Split(l net.Listener) (peers, others net.Listener) {
	s := &splitter{listener: l, ended: make(chan struct{}), open: 2}
	s.peers = &half{of: s, ready: make(chan net.Conn), closed: make(chan struct{})}
	s.others = &half{of: s, ready: make(chan net.Conn), closed: make(chan struct{})}
	s.tasks.Go(s.accept)
	return s.peers, s.others
}

type splitter struct {
	listener      net.Listener
	peers, others *half
	tasks         sync.WaitGroup
	ended         chan struct{} // closed when nothing more is accepted
	failure       error         // why; set before ended is closed

	mu        sync.Mutex
	open      int       // halves that are not closed
	undecided list.List // of net.Conn, the oldest first
}

// half is one of the two listeners.
type half struct {
	of     *splitter
	ready  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case <-h.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-h.ready:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	case <-h.of.ended:
		return nil, h.of.failure
	}
}

func (h *half) Addr() net.Addr { return h.of.listener.Addr() }

// Close ends this half. The one that closes last waits until nothing runs.
func (h *half) Close() (err error) {
	h.once.Do(func() {
		close(h.closed)
		err = h.of.halfClosed()
	})
	return err
}

func (s *splitter) halfClosed() error {
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
			entry := s.enter(conn)
			s.tasks.Go(func() {
				defer s.leave(entry)
				s.sort(conn)
			})
		case errors.Is(err, net.ErrClosed):
			s.failure = err
			close(s.ended)
			return
		default:
			time.Sleep(acceptAgain)
		}
	}
}

// sort tells a connection by its first bytes and hands it over.
func (s *splitter) sort(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(decideWithin)) // if it fails, so does the read
	head := make([]byte, len(magic))
	n := 0
	for n < len(magic) && string(head[:n]) == magic[:n] {
		more, err := conn.Read(head[n:])
		n += more
		if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
			_ = conn.Close()
			return
		}
		if err != nil {
			break // a short message and its end: not a peer
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	to := s.others
	if string(head[:n]) == magic {
		to = s.peers
	}
	select {
	case to.ready <- &sorted{Conn: conn, head: head[:n]}:
	case <-to.closed:
		_ = conn.Close()
	case <-s.ended:
		_ = conn.Close()
	}
}

func (s *splitter) enter(conn net.Conn) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.undecided.Len() >= maxUndecided {
		_ = s.undecided.Front().Value.(net.Conn).Close()
		s.undecided.Remove(s.undecided.Front())
	}
	return s.undecided.PushBack(conn)
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
		_ = e.Value.(net.Conn).Close()
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
