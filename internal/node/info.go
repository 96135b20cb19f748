package node

import (
	"context"
)

// Info describes a log. It is linearizable: it includes every append that was
// acknowledged before the call.
func (n *Node) Info(ctx context.Context, caller Caller, log string) (Info, error) {
	h, refusal := n.serving(caller, log)
	if refusal != nil {
		return Info{}, refusal
	}
	if err := h.confirm(ctx); err != nil {
		return Info{}, err
	}
	return n.describe(h), nil
}

// KnownInfo describes a log as far as this node knows. It asks others only
// whether there is a log that this node has not heard of.
func (n *Node) KnownInfo(caller Caller, log string) (Info, error) {
	if h := (*n.logs.Load())[log]; h != nil {
		if refusal := caller.identify(log, h.id); refusal != nil {
			return Info{}, refusal
		}
		return n.describe(h), nil
	}
	c := n.catalog.Load()
	if c == nil {
		return Info{}, n.notMember()
	}
	state, refusal := c.missing.confirm(c, log)
	if refusal != nil {
		return Info{}, refusal
	}
	l := state.Logs[log]
	if refusal := caller.identify(log, l.ID); refusal != nil {
		return Info{}, refusal
	}
	return n.describeElsewhere(l, state), nil
}

// Watch returns when the log's start or end differs from what since tells, or
// ctx ends.
func (n *Node) Watch(ctx context.Context, caller Caller, log string, since Info) (Info, error) {
	h, refusal := n.serving(caller, log)
	if refusal != nil {
		return Info{}, refusal
	}
	for {
		if changed := h.replica.Tail().Changed(since.Start, since.End); changed != nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return Info{}, ctx.Err()
			}
			continue
		}
		if _, _, err := h.replica.Tail().Bounds(); err != nil {
			return Info{}, err
		}
		return n.describe(h), nil
	}
}

func (n *Node) describe(h *hosted) Info {
	free, total := n.space.known()
	i := Info{
		Name: h.name, ID: h.id, Config: *h.config.Load(), Created: h.created,
		BytesFree: free, BytesTotal: total, Age: UnknownAge,
	}
	if c := n.catalog.Load(); c != nil {
		i.Config.Replicas = wantedReplicas(c.shown.Load(), h.name)
	}
	if problem := h.problem(); problem != nil {
		i.Problem = problem.Error()
	}
	if h.replica == nil {
		i.Replicas = n.replicasOf(h.name, "")
		return i
	}
	s := h.replica.Status()
	i.Age = h.age() // before the end: it may only be told too old
	i.Start, i.End, _ = h.replica.Tail().Bounds()
	i.BytesUsed = h.log.Bytes()
	i.Full = h.onDisk() && h.replica.Full()
	i.WriterTerm, i.OpenSessions, i.LeaderTerm, i.Sealed = s.WriterTerm, s.OpenSessions, s.Term, s.Sealed
	switch {
	case s.Leading:
		i.Leader = n.options.GRPCAddress
	case s.Leader != 0:
		i.Leader = n.addressOf(h, s.Leader)
	}
	i.Replicas = n.replicasOf(h.name, i.Leader)
	return i
}

// describeElsewhere describes a log that this node does not hold.
func (n *Node) describeElsewhere(l catalogLog, state *catalogState) Info {
	free, total := n.space.known()
	i := Info{
		Name: l.Name, ID: l.ID, Config: decodeConfig(l.Config), Created: l.Created,
		BytesFree: free, BytesTotal: total, Age: UnknownAge, Unknown: true, Replicas: replicasOf(state, l.Name, ""),
	}
	i.Config.Replicas = wantedReplicas(state, l.Name)
	return i
}

// wantedReplicas is how many replicas a log wants; the catalog is on every node.
func wantedReplicas(state *catalogState, log string) int {
	if log == catalogName {
		return len(state.Nodes)
	}
	l := state.Logs[log]
	return state.WantedReplicas(&l)
}

func (n *Node) replicasOf(log, leader string) []InfoReplica {
	if c := n.catalog.Load(); c != nil {
		return replicasOf(c.shown.Load(), log, leader)
	}
	return nil
}

// replicasOf tells who holds a log; the catalog is held by all.
func replicasOf(state *catalogState, log, leader string) []InfoReplica {
	var replicas []InfoReplica
	add := func(node catalogNode) {
		replicas = append(replicas, InfoReplica{Node: node.Name, Address: node.Address, Leader: leader != "" && node.Address == leader})
	}
	if log == catalogName {
		for _, node := range state.Members() {
			add(node)
		}
		return replicas
	}
	for _, r := range state.Logs[log].Replicas {
		add(state.Nodes[r.Node])
	}
	return replicas
}
