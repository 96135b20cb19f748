package node

import (
	"context"
	"sync/atomic"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
)

// transfers moves the leadership of a log to a node that an operator names.
type transfers struct {
	me      *atomic.Pointer[datadir.Identity]
	catalog *atomic.Pointer[catalog]
	logs    *hostedLogs
	self    *self
	caller  *caller
	finder  *finder
	router  *router
}

// TransferLeader hands the leadership of a log to the replica on a node, and
// returns when it leads.
func (tr *transfers) TransferLeader(ctx context.Context, _ Caller, log, to string) error {
	c := tr.catalog.Load()
	if c == nil {
		return tr.self.notMember()
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	state := c.shown.Load()
	if log != cluster.CatalogName {
		var refusal *record.Refusal
		if state, refusal = c.unknown.confirm(c, log); refusal != nil {
			return refusal
		}
	}
	target, ok := state.Named(to)
	if !ok {
		return state.NoNode(to)
	}
	l := state.Logs[log]
	if _, holds := l.On(target.ID); log != cluster.CatalogName && !holds {
		return record.Refuse(record.NoNode, "node %q holds no replica of log %q", to, log)
	}
	leader := tr.leaderNode(ctx, log)
	switch leader {
	case 0:
		return record.Refuse(record.NotLeader, "log %q has no leader at the moment", log)
	case target.ID:
		return nil
	}
	if err := tr.caller.call(ctx, leader, askTransfer, transferRequest{Log: log, Node: target.ID}, nil); err != nil {
		return err
	}
	for tr.leaderNode(ctx, log) != target.ID {
		if background.Pause(ctx, changePause); ctx.Err() != nil {
			return record.Refuse(record.Busy, "node %q does not lead log %q yet", to, log)
		}
	}
	return nil
}

// leaderNode finds the node that leads a log, or 0.
func (tr *transfers) leaderNode(ctx context.Context, log string) uint64 {
	if h := tr.logs.named(log); h != nil && h.replica != nil {
		s := h.replica.Status()
		if s.Leading {
			return tr.me.Load().NodeID
		}
		return tr.router.nodeOf(h, s.Leader)
	}
	state := tr.catalog.Load().shown.Load()
	for id, r := range askAll(ctx, tr.caller, state) {
		if r.Logs[state.Logs[log].ID].Leading {
			return id
		}
	}
	return 0
}

// transferHere lets another replica lead a log that this node leads.
func (tr *transfers) transferHere(ctx context.Context, q transferRequest) error {
	h, refusal := tr.finder.serving(Caller{}, q.Log)
	if refusal != nil {
		return refusal
	}
	to := tr.router.replicaOn(h, q.Node)
	if to == 0 {
		return record.Refuse(record.NoNode, "node %d holds no replica of log %q", q.Node, q.Log)
	}
	return h.replica.HandOver(ctx, to)
}
