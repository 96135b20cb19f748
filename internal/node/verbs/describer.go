package verbs

import (
	"context"
	"slices"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// Describer returns this node's knowledge of single logs.
type Describer struct {
	options *settings.Options
	me      *datadir.Me
	catalog *catalog.Shared
	logs    *hosted.Logs
	self    *peers.Self
	finder  *Finder
	holds   *Holds
	router  *peers.Router
	space   *peers.Space
}

// NewDescriber returns the verbs that describe single logs.
func NewDescriber(
	options *settings.Options, me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, router *peers.Router, space *peers.Space,
	finder *Finder, holds *Holds,
) *Describer {
	return &Describer{options: options, me: me, catalog: catalog, logs: logs, self: self, router: router, space: space, finder: finder, holds: holds}
}

// CatalogLog is the name of the log that holds the cluster's catalog.
const CatalogLog = cluster.CatalogName

// Bounds is the readable range of a log, which is cheap to get.
type Bounds struct {
	ID uint64 // of the log: another one of the same name has another
	// Offsets in [Start, End) are committed, as far as this node knows.
	Start, End record.Offset
	Term       uint64 // of the newest leader this node knows of
	Leading    bool   // this node accepts the log's appends
}

// wantedReplicas is how many replicas a log wants; the catalog is on every node.
func wantedReplicas(state *cluster.State, log string) int {
	if log == cluster.CatalogName {
		return len(state.Nodes)
	}
	l := state.Logs[log]
	return cluster.WantedReplicas(state, &l)
}

// replicasOf returns the replicas of a log; every node has one of the catalog.
func replicasOf(state *cluster.State, log, leader string) []InfoReplica {
	var replicas []InfoReplica
	add := func(node cluster.Node, reader bool) {
		replicas = append(replicas, InfoReplica{Node: node.Name, Address: node.Address, Leader: leader != "" && node.Address == leader, Reader: reader, Labels: node.Labels, id: node.ID})
	}
	if log == cluster.CatalogName {
		for _, node := range state.Members() {
			add(node, false)
		}
		return replicas
	}
	l := state.Logs[log]
	for _, r := range slices.Concat(l.Replicas, l.Readers) {
		add(state.Nodes[r.Node], r.Reader)
	}
	return replicas
}

// StoredBy returns the end of a log as stored on other nodes, by node. It includes nodes that have
// answered recently and receive new records without delay. It is empty if this node does not lead
// the log.
func (d *Describer) StoredBy(ctx context.Context, caller Caller, log string) (map[uint64]record.Offset, error) {
	h, refusal := d.finder.serving(caller, log)
	if refusal != nil {
		return nil, refusal
	}
	return d.storedBy(ctx, h)
}

func (d *Describer) storedBy(ctx context.Context, h *hosted.Log) (map[uint64]record.Offset, error) {
	peers := make(chan []core.Peer, 1)
	if r := h.Replica.Peers(func(known []core.Peer) { peers <- known }); r != nil {
		return nil, r
	}
	ends := map[uint64]record.Offset{}
	select {
	case known := <-peers:
		for _, p := range known {
			if node := d.router.NodeOf(h, p.Replica); node != d.me.Load().NodeID && p.Active && p.State == "StateReplicate" {
				ends[node] = p.End
			}
		}
		return ends, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Bounds returns the readable range of a log according to this node.
func (d *Describer) Bounds(c Caller, log string) (Bounds, error) {
	h, refusal := d.finder.serving(c, log)
	if refusal != nil {
		return Bounds{}, refusal
	}
	s := h.Replica.Status()
	start, end, err := h.Replica.Tail().Bounds()
	return Bounds{ID: h.ID, Start: start, End: end, Term: s.Term, Leading: s.Leading}, err
}

// ConfigOf returns the configuration of a log that this node holds, or nil for any other log. The
// caller must not change it. The call is cheap.
func (d *Describer) ConfigOf(log string) *settings.Config {
	if h := d.logs.Named(log); h != nil {
		return h.Config.Load()
	}
	return nil
}

// Await registers w for records of a log beyond since, until leave is called. It is WatchInfo for
// callers that wait for several logs at once.
func (d *Describer) Await(c Caller, log string, since Bounds, w *reading.Waiter) (leave func(), err error) {
	h, refusal := d.finder.serving(c, log)
	if refusal != nil {
		return nil, refusal
	}
	t := h.Replica.Tail()
	t.Await(w, since.Start, since.End)
	return func() { t.Leave(w) }, nil
}

// Info describes a log. It is linearizable: it includes every append that was
// acknowledged before the call.
func (d *Describer) Info(ctx context.Context, caller Caller, log string) (Info, error) {
	h, refusal := d.finder.serving(caller, log)
	if refusal != nil {
		return Info{}, refusal
	}
	if err := h.Confirm(ctx); err != nil {
		return Info{}, err
	}
	info := d.Describe(h)
	if !h.Replica.Status().Leading {
		return info, nil
	}
	ends, err := d.storedBy(ctx, h)
	if err != nil {
		return Info{}, err
	}
	for i := range info.Replicas {
		r := &info.Replicas[i]
		if end, known := ends[r.id]; known {
			r.Lag = new(max(0, int64(info.End-end)))
		} else if r.Leader {
			r.Lag = new(int64)
		}
	}
	return info, nil
}

// KnownHolds returns the holds of a log, by name, according to this node; none if it does not hold
// the log. They are not part of Info because each requires reading files.
func (d *Describer) KnownHolds(caller Caller, log string) ([]Hold, error) {
	h := d.logs.Named(log)
	if h == nil {
		return nil, nil
	}
	if refusal := caller.identify(log, h.ID); refusal != nil {
		return nil, refusal
	}
	return d.holds.HoldsOf(h), nil
}

// KnownInfo describes a log according to this node. It asks other nodes only whether an unknown log
// exists.
func (d *Describer) KnownInfo(caller Caller, log string) (Info, error) {
	if h := d.logs.Named(log); h != nil {
		if refusal := caller.identify(log, h.ID); refusal != nil {
			return Info{}, refusal
		}
		return d.Describe(h), nil
	}
	c := d.catalog.Load()
	if c == nil {
		return Info{}, d.self.NotMember()
	}
	state, refusal := c.Unknown.Confirm(c, log)
	if refusal != nil {
		return Info{}, refusal
	}
	l := state.Logs[log]
	if refusal := caller.identify(log, l.ID); refusal != nil {
		return Info{}, refusal
	}
	return d.describeElsewhere(l, state), nil
}

// WatchInfo returns when the log's start or end differs from since, or ctx ends.
func (d *Describer) WatchInfo(ctx context.Context, caller Caller, log string, since Info) (Info, error) {
	h, refusal := d.finder.serving(caller, log)
	if refusal != nil {
		return Info{}, refusal
	}
	for {
		if changed := h.Replica.Tail().Changed(since.Start, since.End); changed != nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return Info{}, ctx.Err()
			}
			continue
		}
		if _, _, err := h.Replica.Tail().Bounds(); err != nil {
			return Info{}, err
		}
		return d.Describe(h), nil
	}
}

func (d *Describer) Describe(h *hosted.Log) Info {
	free, total := d.space.Known()
	i := Info{
		Name: h.Name, ID: h.ID, Config: *h.Config.Load(), Created: h.Created,
		BytesFree: free, BytesTotal: total, Age: reading.UnknownAge,
	}
	if c := d.catalog.Load(); c != nil {
		i.Config.Replicas = wantedReplicas(c.Shown.Load(), h.Name)
	}
	if problem := h.Problem(); problem != nil {
		i.Problem = problem.Error()
	}
	if h.Replica == nil {
		i.Replicas = d.replicasOf(h.Name, "")
		return i
	}
	s := h.Replica.Status()
	i.Age = h.Age() // before the end: it may only be reported too old
	i.Start, i.End, _ = h.Replica.Tail().Bounds()
	i.BytesUsed = h.Store.Bytes()
	i.Full = h.OnDisk() && h.Replica.Full()
	i.WriterTerm, i.OpenSessions, i.LeaderTerm, i.Sealed = s.WriterTerm, s.OpenSessions, s.Term, s.Sealed
	switch {
	case s.Leading:
		i.Leader = d.options.GRPCAddress
	case s.Leader != 0:
		i.Leader = d.router.AddressOf(h, s.Leader)
	}
	i.Replicas = d.replicasOf(h.Name, i.Leader)
	return i
}

// describeElsewhere describes a log that this node does not hold.
func (d *Describer) describeElsewhere(l cluster.Log, state *cluster.State) Info {
	free, total := d.space.Known()
	i := Info{
		Name: l.Name, ID: l.ID, Config: settings.DecodeConfig(l.Config), Created: l.Created,
		BytesFree: free, BytesTotal: total, Age: reading.UnknownAge, Unknown: true, Replicas: replicasOf(state, l.Name, ""),
	}
	i.Config.Replicas = wantedReplicas(state, l.Name)
	return i
}

func (d *Describer) replicasOf(log, leader string) []InfoReplica {
	if c := d.catalog.Load(); c != nil {
		return replicasOf(c.Shown.Load(), log, leader)
	}
	return nil
}
