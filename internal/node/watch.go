package node

import (
	"context"

	"strandline.dev/internal/record"
)

// CatalogLog is the name of the log that holds the cluster's catalog.
const CatalogLog = catalogName

// Bounds is what a reader needs to know of a log, and costs next to nothing.
type Bounds struct {
	ID uint64 // of the log: another one of the same name has another
	// Offsets in [Start, End) are committed, as far as this node knows.
	Start, End record.Offset
	Term       uint64 // of the newest leader this node knows of
	Leading    bool   // this node takes the log's appends
}

// Bounds tells the readable range of a log as far as this node knows.
func (n *Node) Bounds(c Caller, log string) (Bounds, error) {
	h, refusal := n.serving(c, log)
	if refusal != nil {
		return Bounds{}, refusal
	}
	s := h.replica.Status()
	start, end, err := h.replica.Tail().Bounds()
	return Bounds{ID: h.id, Start: start, End: end, Term: s.Term, Leading: s.Leading}, err
}

// ConfigOf returns how a log that this node holds is configured, which must not be
// changed; nil for any other. It costs next to nothing.
func (n *Node) ConfigOf(log string) *Config {
	if h := (*n.logs.Load())[log]; h != nil {
		return h.config.Load()
	}
	return nil
}

// Changed returns a channel that is closed when the start or the end of a log
// differs from what since tells; nil when one does already. It is Watch for
// those who wait for several logs at once.
func (n *Node) Changed(c Caller, log string, since Bounds) (<-chan struct{}, error) {
	h, refusal := n.serving(c, log)
	if refusal != nil {
		return nil, refusal
	}
	return h.replica.Tail().Changed(since.Start, since.End), nil
}

// ReserveSession takes a session id that no session has or will ever get. It
// opens nothing: the first append of a Kafka producer does.
func (n *Node) ReserveSession(ctx context.Context, _ Caller) (record.SessionID, error) {
	c := n.catalog.Load()
	if c == nil {
		return 0, n.notMember()
	}
	return n.sessions.next(ctx, c)
}
