package node

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"strandline.dev/internal/replica/core"
)

// newsLines is how many logs may have a line of their own when leaders change. The
// start of a node with thousands of logs is one line instead.
const newsLines = 10

// leaderNews logs changes of leaders, once a second, with the names of nodes. What
// changes and changes back within that time is not worth a line.
type leaderNews struct {
	logger  *slog.Logger
	metrics *metrics
	router  *router

	mu      sync.Mutex
	changed map[*hosted]core.Status
}

// leaderChanged is called on the log's loop.
func (ln *leaderNews) leaderChanged(h *hosted, before, now core.Status) {
	h.peers.Store(nil) // those of another leadership
	if before.Leading != now.Leading {
		ln.metrics.elected(h.name, now.Leading)
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.changed == nil {
		ln.changed = map[*hosted]core.Status{}
	}
	ln.changed[h] = now
}

// log logs what has changed since it was called last.
func (ln *leaderNews) log() {
	ln.mu.Lock()
	changed := ln.changed
	ln.changed = nil
	ln.mu.Unlock()
	var fresh []*hosted
	here, elsewhere, without := 0, 0, 0
	for h, s := range changed {
		now := leaderNow{replica: s.Leader, leading: s.Leading}
		if h.logged == now || s.Leader == h.replicaID && !s.Leading {
			continue // it is about to lead
		}
		h.logged = now
		fresh = append(fresh, h)
		switch {
		case s.Leading:
			here++
		case s.Leader != 0:
			elsewhere++
		default:
			without++
		}
	}
	if len(fresh) > newsLines {
		ln.logger.Info("the leaders of many logs have changed", "logs", len(fresh), "here", here, "elsewhere", elsewhere, "without_leader", without)
		return
	}
	slices.SortFunc(fresh, func(a, b *hosted) int { return cmp.Compare(a.id, b.id) })
	for _, h := range fresh {
		s := changed[h]
		switch {
		case s.Leading:
			ln.logger.Info("this node leads a log", "log", h.name, "term", s.Term)
		case s.Leader != 0:
			ln.logger.Info("another node leads a log", "log", h.name, "leader", ln.router.nodeName(h, s.Leader), "term", s.Term)
		default:
			ln.logger.Warn("a log has no leader", "log", h.name, "term", s.Term)
		}
	}
}
