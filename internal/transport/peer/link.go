package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// link manages the connection with one other node: it keeps at most one connection, and dials if
// the id of this node is the lower one.
type link struct {
	mesh    *Mesh
	node    atomic.Pointer[Node]
	context context.Context // ends when the node is removed
	end     context.CancelCauseFunc
	redial  chan struct{}                      // holds an element if the next attempt may succeed
	abandon atomic.Pointer[context.CancelFunc] // cancels the attempt to dial
	current atomic.Pointer[connection]
	traffic traffic
	large   tooLarge

	// notifying is held while current changes and Changed is called, so that Changed
	// is called in the order of the changes.
	notifying       sync.Mutex
	reportedRefused bool // whether Changed reported refused since the node was last reachable
}

func newLink(m *Mesh, node Node) *link {
	l := &link{mesh: m, redial: make(chan struct{}, 1)}
	l.node.Store(&node)
	l.context, l.end = context.WithCancelCause(m.context)
	return l
}

// close ends the link and its connection.
func (l *link) close(reason error) {
	l.end(reason)
	l.disconnect(reason)
}

func (l *link) disconnect(reason error) {
	if c := l.current.Load(); c != nil {
		c.close(reason)
	}
}

// become applies the changes of the node.
func (l *link) become(node Node) {
	before := l.node.Swap(&node)
	if before.Address == node.Address {
		return
	}
	if abandon := l.abandon.Load(); abandon != nil {
		(*abandon)()
	}
	l.disconnect(errMoved)
	l.dialNow()
}

// dialNow ends the pause before the next attempt if there is one.
func (l *link) dialNow() {
	select {
	case l.redial <- struct{}{}:
	default:
	}
}

// carry serves a connection until it ends. It first closes an earlier connection and waits for
// its last delivery: that connection may be half-open, and the node that has just connected knows
// best.
func (l *link) carry(c *connection) {
	c.count(&l.traffic)
	for {
		l.notifying.Lock()
		old := l.current.Load()
		if old == nil {
			break
		}
		l.notifying.Unlock()
		old.close(errReplaced)
		<-old.done
		// The carry of the earlier connection still has to report its end; it needs notifying for
		// that.
		l.detach(old, errReplaced)
	}
	l.current.Store(c)
	l.reportedRefused = false
	// To close the link, close ends the context first and then looks for a connection. Here the
	// connection is set first and the context is checked then, so one of the two closes it.
	if l.context.Err() != nil {
		c.close(context.Cause(l.context))
	}
	if c.dialled != "" && c.dialled != l.node.Load().Address { // in the same way as above
		c.close(errMoved)
	}
	l.changed(true, false)
	l.notifying.Unlock()

	l.mesh.notices.forget(l.node.Load().ID)
	l.log().Info("connected with a node", "protocol", c.version)
	reason := c.run()
	l.detach(c, reason)
}

// detach reports that the connection has ended, unless that was reported before.
func (l *link) detach(c *connection, reason error) {
	l.notifying.Lock()
	defer l.notifying.Unlock()
	if !l.current.CompareAndSwap(c, nil) {
		return
	}
	l.log().Info("lost the connection with a node", "reason", reason)
	// The side that dials will soon find out whether any process listens.
	gone := !l.dials() && processGone(reason)
	l.reportedRefused = gone
	l.changed(false, gone)
}

// changed calls Options.Changed. The caller holds notifying.
func (l *link) changed(up, refused bool) {
	if f := l.mesh.options.Changed; f != nil {
		f(l.node.Load().ID, up, refused)
	}
}

// nobodyListens reports, once for each loss, that no process listens at the address of the node.
func (l *link) nobodyListens() {
	l.notifying.Lock()
	defer l.notifying.Unlock()
	if l.reportedRefused || l.current.Load() != nil {
		return
	}
	l.reportedRefused = true
	l.changed(false, true)
}

func (l *link) dials() bool {
	_, self := l.mesh.identity()
	return self.ID < l.node.Load().ID
}

func (l *link) log() *slog.Logger {
	node := l.node.Load()
	return l.mesh.log.With("node", node.ID, "name", node.Name, "address", node.Address)
}

// keepConnected dials repeatedly until the link ends. After a loss it dials at once, unless the
// connection was a short one.
func (l *link) keepConnected() {
	pace := l.mesh.pace
	wait := time.Duration(0)
	for l.context.Err() == nil {
		began := time.Now()
		err := l.dialAndCarry()
		if err == nil && time.Since(began) > pace.backoffTo {
			wait = 0
			continue
		}
		if err != nil {
			l.mesh.report(*l.node.Load(), err)
			// A port forwarder accepts connections for a dead process and closes them.
			if errors.Is(err, syscall.ECONNREFUSED) || processGone(err) {
				l.nobodyListens()
			}
		}
		wait = min(max(2*wait, pace.backoff), pace.backoffTo)
		again := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-l.context.Done():
		case <-l.redial:
			wait = 0
		case <-again.C:
		}
		again.Stop()
	}
}

// dialAndCarry dials and serves one connection. It returns nil if there was a connection.
func (l *link) dialAndCarry() error {
	ctx, cancel := context.WithTimeout(l.context, l.mesh.pace.handshake)
	defer cancel()
	l.abandon.Store(&cancel) // before the address is read, so that a change is either seen or cancels the attempt
	node := *l.node.Load()
	conn, err := l.mesh.options.Dial(ctx, node.Address)
	if err != nil {
		return err
	}
	c, err := l.mesh.open(ctx, conn, false, func(theirs opening) verdict { return l.judge(node, theirs) })
	if err != nil {
		return err
	}
	c.dialled = node.Address
	l.carry(c)
	return nil
}

// judge returns the verdict on the node that answers at the address of node.
func (l *link) judge(node Node, theirs opening) verdict {
	if theirs.Node.ID == 0 {
		return verdict{notYet, fmt.Sprintf("node %v is expected at %s, but the node that answers there has not joined a cluster yet", node, node.Address)}
	}
	if v := l.mesh.admit(theirs); v.judgement != welcome {
		return v
	}
	if theirs.Node.ID != node.ID {
		return verdict{refused, fmt.Sprintf("node %v is expected at %s, not node %v: correct the address of one of them", node, node.Address, theirs.Node)}
	}
	return verdict{}
}

// unread returns a connection itself, and what of it was read before.
func unread(conn net.Conn) (net.Conn, []byte) {
	if sorted, ok := conn.(interface{ Unread() (net.Conn, []byte) }); ok {
		return sorted.Unread()
	}
	return conn, nil
}

// open performs the handshake on a new connection. If ctx ends during the handshake, open closes
// the connection.
func (m *Mesh) open(ctx context.Context, conn net.Conn, ask bool, judge func(opening) verdict) (*connection, error) {
	conn, head := unread(conn) // writev needs the connection itself
	tune(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	timed := &timedReader{conn: conn, head: head}
	buffered := bufio.NewReaderSize(timed, 64<<10)
	proved := ""
	mine := m.opening(ask)
	theirs, err := shakeHands(conn, buffered, mine, func(theirs opening) (v verdict) {
		if proved, v = m.options.proved(conn, theirs); v.judgement != welcome {
			return v
		}
		theirs.proved = proved
		return judge(theirs)
	}, m.pace.handshake)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	timed.silence = m.pace.silence
	c := newConnection(m, timed, buffered, theirs.Node.ID, proved, ask || theirs.Ask, theirs.Ask && !ask)
	c.version = version(mine, theirs)
	c.takesLarge = theirs.LargeMessages
	c.compresses = theirs.Compression && m.options.Compress != nil
	return c, nil
}
