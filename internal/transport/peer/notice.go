package peer

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// notices holds the last notice about each node, so that it is not repeated with every attempt.
type notices struct {
	mu   sync.Mutex
	last map[Node]string
	// ofVisitors limits the notices about incoming connections, whose text the other side chooses.
	ofVisitors *rate.Limiter
	ofUnproved rate.Sometimes
}

func newNotices() notices {
	return notices{
		ofVisitors: rate.NewLimiter(rate.Every(noticeEvery), noticesAtOnce), ofUnproved: rate.Sometimes{Interval: noticeEvery},
	}
}

// maxNotices limits the notices that are kept. With more, some are repeated.
const maxNotices = 1024

// isNew records a notice about a node and reports whether it differs from the last one and may
// be logged.
func (n *notices) isNew(of Node, text string, may func() bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[of] == text || !may() {
		return false
	}
	if n.last == nil || len(n.last) >= maxNotices {
		n.last = map[Node]string{}
	}
	n.last[of] = text
	return true
}

// forget removes the notices about a node, since it is connected now.
func (n *notices) forget(id NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node := range n.last {
		if node.ID == id {
			delete(n.last, node)
		}
	}
}

// report reports once why there is no connection with a node that this one dialled: in the log,
// and to Refused if the other side refused this one.
func (m *Mesh) report(node Node, err error) {
	m.say(node, "cannot connect with a node; trying again", err, func() bool { return true })
}

// reportVisitor is report for a node that dialled. The other side may send a different text each
// time, so the number of notices is limited.
func (m *Mesh) reportVisitor(node Node, err error) {
	m.say(node, "a connection from another node was not opened", err, m.notices.ofVisitors.Allow)
}

func (m *Mesh) say(node Node, failed string, err error, may func() bool) {
	node = node.brief()
	refusal, isRefusal := errors.AsType[*RefusedError](err)
	text := err.Error()
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		text = operation.Op + operation.Err.Error() // without the port, which differs each time
	}
	if m.context.Err() != nil || !m.notices.isNew(node, brief(text), may) {
		return
	}
	log := m.log.With("node", node.ID, "name", node.Name, "address", node.Address)
	switch {
	case !isRefusal:
		log.Info(failed, "error", brief(err.Error()))
	case refusal.notYet:
		log.Info("a node does not connect yet; trying again", "reason", refusal.Reason)
	case refusal.ByUs:
		log.Warn("refused a node", "reason", refusal.Reason)
	default:
		log.Warn("refused by a node", "reason", refusal.Reason)
		if m.options.Refused != nil {
			m.options.Refused(node, refusal.Reason)
		}
	}
}

// reportUnproved logs that a connection was closed because it is not of a node. The line contains
// no text of the other side.
func (m *Mesh) reportUnproved(conn net.Conn, reason string) {
	m.notices.ofUnproved.Do(func() {
		m.log.Info("a connection that began as another node's was closed, perhaps not the only one", "client", conn.RemoteAddr().String(), "reason", brief(reason))
	})
}

// brief cuts a text for the log that may contain text of the other side.
func brief(text string) string {
	if len(text) <= maxNotice {
		return text
	}
	return strings.ToValidUTF8(text[:maxNotice-3], "") + "..."
}

func (n Node) brief() Node { return Node{ID: n.ID, Name: brief(n.Name), Address: brief(n.Address)} }

// tooLarge holds, for each log, the time when a message that is too large was last logged, so
// that a message that is sent repeatedly does not fill the log file.
type tooLarge struct {
	mu   sync.Mutex
	last map[uint64]time.Time
}

// due reports whether a line about a log may be written now.
func (t *tooLarge) due(log uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ever := t.last[log]; ever && now.Sub(last) < tooLargeEvery {
		return false
	}
	if t.last == nil || len(t.last) >= maxTooLarge {
		t.last = map[uint64]time.Time{}
	}
	t.last[log] = now
	return true
}

// dropTooLarge counts and logs a message that is too large for every lane.
func (l *link) dropTooLarge(h header, bytes int, why string) {
	l.mesh.options.countTooLarge()
	if l.large.due(h.log, time.Now()) {
		l.log().Error("a message for a node is too large and is dropped each time it is sent", "log", h.log, "replica", h.replica, "bytes", bytes, "reason", why)
	}
}

// countTooLarge counts a message, call or answer that is not sent because of its size.
func (o *Options) countTooLarge() {
	if f := o.TooLarge; f != nil {
		f()
	}
}
