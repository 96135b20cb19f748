package peer

import (
	"errors"
	"net"
	"sync"
)

// notices are what was last said of each node, so that it is not said again
// with every attempt.
type notices struct {
	mu   sync.Mutex
	last map[Node]string
}

// maxNotices bounds what is remembered; with more, something is said twice.
const maxNotices = 1024

// isNew remembers what is to be said of a node.
func (n *notices) isNew(of Node, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[of] == text {
		return false
	}
	if n.last == nil || len(n.last) >= maxNotices {
		n.last = map[Node]string{}
	}
	n.last[of] = text
	return true
}

// forget what was said of a node, as it is connected now.
func (n *notices) forget(id NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node := range n.last {
		if node.ID == id {
			delete(n.last, node)
		}
	}
}

// report why there is no connection, once: the log, and Refused if the other
// side refused this one.
func (m *Mesh) report(node Node, err error) {
	refusal, isRefusal := errors.AsType[*RefusedError](err)
	text := err.Error()
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		text = operation.Op + operation.Err.Error() // without the port, which is another one each time
	}
	if m.context.Err() != nil || !m.notices.isNew(node, text) {
		return
	}
	log := m.log.With("node", node.ID, "name", node.Name, "address", node.Address)
	switch {
	case !isRefusal:
		log.Info("cannot connect with a node; trying on", "error", err)
	case refusal.notYet:
		log.Info("a node does not connect yet; trying on", "reason", refusal.Reason)
	case refusal.ByUs:
		log.Warn("refused a node", "reason", refusal.Reason)
	default:
		log.Warn("refused by a node", "reason", refusal.Reason)
		if m.options.Refused != nil {
			m.options.Refused(node, refusal.Reason)
		}
	}
}
