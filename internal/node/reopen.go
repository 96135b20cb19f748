package node

import (
	"context"
	"time"
)

// A log whose files cannot be opened, for want of a right or of file descriptors,
// is opened when the cause is gone, without a restart.

// Pauses between two tries to open logs that could not be opened.
const (
	reopenPause    = time.Second
	maxReopenPause = 30 * time.Second
)

// reopenLogs tries again until the node stops. The pause doubles as long as
// nothing changes.
func (n *Node) reopenLogs(ctx context.Context) {
	told := map[uint64]string{} // by log: what was logged last
	for wait := reopenPause; ; {
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		opened, left := n.reopen()
		for _, h := range opened {
			n.logger.Info("a log that could not be opened is open now", "log", h.name)
			delete(told, h.id)
			wait = reopenPause
		}
		if len(left) == 0 {
			clear(told)
			wait = reopenPause
			continue
		}
		for _, h := range left {
			if why := h.unopened.Error(); told[h.id] != why {
				told[h.id], wait = why, reopenPause
				n.logger.Error("a log cannot be opened; trying again", "log", h.name, "error", h.unopened)
			}
		}
		wait = min(2*wait, maxReopenPause)
	}
}

// reopen tries once. It returns the logs that could be opened, and those that are
// left.
func (n *Node) reopen() (opened, left []*hosted) {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed || n.closing.Load() {
		return nil, nil
	}
	state := n.catalog.Load().shown.Load()
	for _, h := range *n.logs.Load() {
		l, there := state.Logs[h.name]
		if h.unopened == nil || !there || l.ID != h.id {
			continue // what has left this node is rehost's
		}
		now := n.host(l, h.replicaID)
		n.addLog(now)
		switch {
		case now.opening:
		case now.unopened != nil:
			left = append(left, now)
		default:
			opened = append(opened, now)
		}
	}
	return opened, left
}
