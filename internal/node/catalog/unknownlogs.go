package catalog

import (
	"context"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// confirmTime bounds the question whether there is a log that a node has not heard
// of, and for how long its failure answers those who come after.
const confirmTime = time.Second

// unknownLogs answers for logs that this node's catalog does not have. That there is no
// such log is final for the caller, so only the newest catalog can say it: a node
// that was away, or is joining, may know an old one.
type unknownLogs struct {
	Failed atomic.Pointer[time.Time] // when the newest question without an answer ended
}

// Confirm returns a state of the catalog that has the log, or why there is none:
// LOG_NOT_FOUND if the newest state has none, NOT_LEADER if that is not known.
func (m *unknownLogs) Confirm(c *Catalog, name string) (*cluster.State, *record.Refusal) {
	if state := c.Shown.Load(); has(state, name) {
		return state, nil
	}
	// Else many questions about unknown logs would wait one after the other.
	if failed := m.Failed.Load(); failed != nil && time.Since(*failed) < confirmTime {
		return nil, unknownHere(name)
	}
	ctx, cancel := context.WithTimeout(c.tasks.Context, confirmTime)
	defer cancel()
	if err := c.Refresh(ctx); err != nil {
		now := time.Now()
		m.Failed.Store(&now)
		c.logger.Debug("could not ask whether there is a log", "log", name, "error", err)
		return nil, unknownHere(name)
	}
	state := c.Shown.Load()
	if !has(state, name) {
		return nil, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	return state, nil
}

func has(state *cluster.State, log string) bool {
	_, there := state.Logs[log]
	return there
}

func unknownHere(log string) *record.Refusal {
	return record.Refuse(record.NotLeader, "this node does not know a log %q, and cannot ask the catalog's leader whether there is one", log)
}
