package peers

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/transport/peer"
)

// Receiver handles messages from other nodes that are not answers: messages to replicas and status.
// It also handles connections that open and close.
type Receiver struct {
	logger       *slog.Logger
	metrics      *metrics.Metrics
	logs         *hosted.Logs
	incarnations *datadir.Incarnations
	due          *background.Bell
	router       *Router
	status       *Status
	early        early
}

// NewReceiver returns a Receiver that delivers messages to logs, and records the status of nodes in
// status and incarnations. It rings due when a connection opens or closes.
func NewReceiver(
	logger *slog.Logger, metrics *metrics.Metrics, logs *hosted.Logs, incarnations *datadir.Incarnations, due *background.Bell, router *Router, status *Status,
) *Receiver {
	return &Receiver{logger: logger, metrics: metrics, logs: logs, incarnations: incarnations, due: due, router: router, status: status}
}

// Deliver passes a message to its replica, if the sending replica is on the node that sent the
// message.
func (rv *Receiver) Deliver(from peer.NodeID, log, to uint64, message []byte) {
	if log == gossipLog {
		rv.Hear(from, message)
		return
	}
	h := rv.logs.ByID(log)
	if h == nil {
		rv.early.hold(earlyMessage{from: from, log: log, to: to, message: message})
		if h = rv.logs.ByID(log); h != nil { // since then
			rv.Hosted(log)
		}
		return
	}
	if h.Replica == nil || h.ReplicaID != to {
		return // deleted, moved, or not known here yet: Raft tries again
	}
	err := h.Replica.Step(message, func(sender uint64) bool { return rv.router.isOn(h, sender, from) })
	switch {
	case errors.Is(err, runtime.ErrForged):
		rv.metrics.Forged.Inc()
		rv.logger.Debug("dropped a message for a replica that is not its sender's", "log", h.Name, "from", from)
	case err != nil:
		rv.logger.Error("a message of another node cannot be used", "log", h.Name, "from", from, "error", err)
	}
}

// Hosted delivers messages that arrived for a log before it was hosted here.
func (rv *Receiver) Hosted(log uint64) {
	for _, m := range rv.early.take(log) {
		rv.Deliver(m.from, m.log, m.to, m.message)
	}
}

// Hear records another node's status. It ignores a status that it cannot decode, which is from a
// newer version.
func (rv *Receiver) Hear(from uint64, message []byte) {
	var what news
	if json.Unmarshal(message, &what) == nil {
		rv.status.heard(from, what)
		rv.incarnations.Heard(from, what.Incarnation)
	}
}

// gossipLog is the log that a node's own news are addressed to.
const gossipLog = 1<<64 - 1

// Changed reports the state of the connection to a node to the replicas.
func (rv *Receiver) Changed(other peer.NodeID, up, refused bool) {
	rv.logger.Debug("connection to another node", "node", other, "up", up, "refused", refused)
	rv.status.Changed(other, up)
	rv.due.Ring()
	for _, h := range rv.logs.All() {
		r := rv.router.ReplicaOn(h, other)
		switch {
		case r == 0 || h.Replica == nil:
		case up:
			h.Replica.PeerBack(r)
		default:
			h.Replica.PeerLost(r, refused)
		}
	}
}

// early holds messages for logs that this node does not host yet: the first leader of a new log
// requests votes as soon as it knows of the log, perhaps before this node does. Otherwise it would
// have to repeat the request, a round trip or more later.
type early struct {
	mu   sync.Mutex
	held []earlyMessage
}

// earlyMessage is one of them.
type earlyMessage struct {
	from    peer.NodeID
	log, to uint64
	message []byte
	until   time.Time
}

const (
	// earlyTime is how long a message is held.
	earlyTime = 2 * time.Second
	// maxEarly and maxEarlyBytes bound the messages, and each of them: a vote is smaller.
	maxEarly      = 1024
	maxEarlyBytes = 512
)

// hold keeps a message, unless there are too many.
func (e *early) hold(m earlyMessage) {
	now := time.Now()
	m.until = now.Add(earlyTime)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = slices.DeleteFunc(e.held, func(old earlyMessage) bool { return old.until.Before(now) })
	if len(m.message) <= maxEarlyBytes && len(e.held) < maxEarly {
		e.held = append(e.held, m)
	}
}

// take removes and returns the messages held for a log, in order.
func (e *early) take(log uint64) (messages []earlyMessage) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = slices.DeleteFunc(e.held, func(m earlyMessage) bool {
		if m.log == log && m.until.After(now) {
			messages = append(messages, m)
		}
		return m.log == log
	})
	return messages
}
