package replicas

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/replica/core"
)

// NewsLines is the largest number of logs that get separate lines when leaders change. The start of
// a node with thousands of logs gets one line instead.
const NewsLines = 10

// LeaderNews logs changes of leaders, once a second, with the names of nodes. It omits a change
// that is reversed within that time.
type LeaderNews struct {
	logger  *slog.Logger
	metrics *metrics.Metrics
	router  *peers.Router

	mu      sync.Mutex
	changed map[*hosted.Log]core.Status
}

// NewLeaderNews returns a LeaderNews that takes the names of nodes from router.
func NewLeaderNews(logger *slog.Logger, metrics *metrics.Metrics, router *peers.Router) *LeaderNews {
	return &LeaderNews{logger: logger, metrics: metrics, router: router}
}

// LeaderChanged is called on the log's loop.
func (ln *LeaderNews) LeaderChanged(h *hosted.Log, before, now core.Status) {
	h.Peers.Store(nil) // those of another leadership
	if before.Leading != now.Leading {
		ln.metrics.Elected(h.Name, now.Leading)
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.changed == nil {
		ln.changed = map[*hosted.Log]core.Status{}
	}
	ln.changed[h] = now
}

// Log logs the changes since the last call.
func (ln *LeaderNews) Log() {
	ln.mu.Lock()
	changed := ln.changed
	ln.changed = nil
	ln.mu.Unlock()
	var fresh []*hosted.Log
	here, elsewhere, without := 0, 0, 0
	for h, s := range changed {
		now := hosted.LeaderNow{Replica: s.Leader, Leading: s.Leading}
		if h.Logged == now || s.Leader == h.ReplicaID && !s.Leading {
			continue // it is about to lead
		}
		h.Logged = now
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
	if len(fresh) > NewsLines {
		ln.logger.Info("the leaders of many logs have changed", "logs", len(fresh), "here", here, "elsewhere", elsewhere, "without_leader", without)
		return
	}
	slices.SortFunc(fresh, func(a, b *hosted.Log) int { return cmp.Compare(a.ID, b.ID) })
	for _, h := range fresh {
		s := changed[h]
		switch {
		case s.Leading:
			ln.logger.Info("this node leads a log", "log", h.Name, "term", s.Term)
		case s.Leader != 0:
			ln.logger.Info("another node leads a log", "log", h.Name, "leader", ln.router.NodeName(h, s.Leader), "term", s.Term)
		default:
			ln.logger.Warn("a log has no leader", "log", h.Name, "term", s.Term)
		}
	}
}
