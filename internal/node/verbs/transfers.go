package verbs

import (
	"context"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
)

// Transfers moves the leadership of a log to a node that an operator names.
type Transfers struct {
	me      *datadir.Me
	catalog *catalog.Shared
	logs    *hosted.Logs
	self    *peers.Self
	caller  *peers.Caller
	finder  *Finder
	router  *peers.Router
}

// NewTransfers returns the verb that moves leadership.
func NewTransfers(
	me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, caller *peers.Caller, router *peers.Router, finder *Finder,
) *Transfers {
	return &Transfers{me: me, catalog: catalog, logs: logs, self: self, caller: caller, router: router, finder: finder}
}

// TransferLeader moves the leadership of a log to the replica on a node, and returns when that
// replica leads.
func (tr *Transfers) TransferLeader(ctx context.Context, _ Caller, log, to string) error {
	c := tr.catalog.Load()
	if c == nil {
		return tr.self.NotMember()
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	state := c.Shown.Load()
	if log != cluster.CatalogName {
		var refusal *record.Refusal
		if state, refusal = c.Unknown.Confirm(c, log); refusal != nil {
			return refusal
		}
	}
	target, ok := state.Named(to)
	if !ok {
		return state.NoNode(to)
	}
	l := state.Logs[log]
	if _, holds := l.On(target.ID); log != cluster.CatalogName && !holds {
		return record.Refuse(record.NoNode, "node %q has no replica of log %q", to, log)
	}
	leader := tr.leaderNode(ctx, log)
	switch leader {
	case 0:
		return record.Refuse(record.NotLeader, "log %q has no leader at the moment", log)
	case target.ID:
		return nil
	}
	if err := tr.caller.Call(ctx, leader, peers.AskTransfer, peers.TransferRequest{Log: log, Node: target.ID}, nil); err != nil {
		return err
	}
	for tr.leaderNode(ctx, log) != target.ID {
		if background.Pause(ctx, catalog.ChangePause); ctx.Err() != nil {
			return record.Refuse(record.Busy, "node %q does not lead log %q yet", to, log)
		}
	}
	return nil
}

// leaderNode finds the node that leads a log, or 0.
func (tr *Transfers) leaderNode(ctx context.Context, log string) uint64 {
	if h := tr.logs.Named(log); h != nil && h.Replica != nil {
		s := h.Replica.Status()
		if s.Leading {
			return tr.me.Load().NodeID
		}
		return tr.router.NodeOf(h, s.Leader)
	}
	state := tr.catalog.Load().Shown.Load()
	for id, r := range AskAll(ctx, tr.caller, state) {
		if r.Logs[state.Logs[log].ID].Leading {
			return id
		}
	}
	return 0
}

// TransferHere lets another replica lead a log that this node leads.
func (tr *Transfers) TransferHere(ctx context.Context, q peers.TransferRequest) error {
	h, refusal := tr.finder.serving(Caller{}, q.Log)
	if refusal != nil {
		return refusal
	}
	to := tr.router.ReplicaOn(h, q.Node)
	if to == 0 {
		return record.Refuse(record.NoNode, "node %d has no replica of log %q", q.Node, q.Log)
	}
	return h.Replica.HandOver(ctx, to)
}
