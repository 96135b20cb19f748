package peer

import (
	"errors"
	"net"
	"sync"
)

// notices holds the last notice about each node, so that it is not repeated with every attempt.
type notices struct {
	mu   sync.Mutex
	last map[Node]string
}

// maxNotices limits the notices that are kept. With more, some are repeated.
const maxNotices = 1024

// isNew records a notice about a node and reports whether it differs from the last one.
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

// report reports once why there is no connection: in the log, and to Refused if the other side
// refused this one.
func (m *Mesh) report(node Node, err error) {
	refusal, isRefusal := errors.AsType[*RefusedError](err)
	text := err.Error()
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		text = operation.Op + operation.Err.Error() // without the port, which differs each time
	}
	if m.context.Err() != nil || !m.notices.isNew(node, text) {
		return
	}
	log := m.log.With("node", node.ID, "name", node.Name, "address", node.Address)
	switch {
	case !isRefusal:
		log.Info("cannot connect with a node; trying again", "error", err)
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
