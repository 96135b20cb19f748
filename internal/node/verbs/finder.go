package verbs

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Finder finds the log of a verb, or returns a refusal.
type Finder struct {
	me      *datadir.Me
	catalog *catalog.Shared
	logs    *hosted.Logs
	self    *peers.Self
	router  *peers.Router
	peers   *peers.Peers
}

// NewFinder returns a Finder for the logs of this node.
func NewFinder(me *datadir.Me, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self, router *peers.Router, peers *peers.Peers) *Finder {
	return &Finder{me: me, catalog: catalog, logs: logs, self: self, router: router, peers: peers}
}

// leading returns nil if this node leads a log as far as it knows, or was just elected: requests
// then wait for its first entry.
func (f *Finder) leading(h *hosted.Log) *record.Refusal {
	s := h.Replica.Status()
	switch {
	case s.Leading, s.Leader == h.ReplicaID:
		return nil
	case s.Leader == 0:
		return record.Refuse(record.NotLeader, "log %q has no leader at the moment", h.Name)
	}
	r := record.Refuse(record.NotLeader, "another node leads log %q", h.Name)
	r.Leader = f.router.AddressOf(h, s.Leader)
	return r
}

// LogFor returns a log that the caller may change.
func (f *Finder) LogFor(c Caller, log string) (*hosted.Log, *record.Refusal) {
	if c.System && log != cluster.CatalogName {
		return f.serving(c, log)
	}
	return f.userLog(c, log)
}

// serving finds a log that this node can serve.
func (f *Finder) serving(c Caller, name string) (*hosted.Log, *record.Refusal) {
	h := f.logs.Named(name)
	if h == nil {
		return nil, f.notHere(c, name)
	}
	if refusal := c.identify(name, h.ID); refusal != nil {
		return nil, refusal
	}
	if problem := h.Problem(); problem != nil {
		return nil, problem
	}
	if behind := h.Behind(); behind != nil {
		return nil, behind
	}
	return h, nil
}

// userLog finds a log that is not the system's own.
func (f *Finder) userLog(c Caller, name string) (*hosted.Log, *record.Refusal) {
	h, refusal := f.serving(c, name)
	if refusal == nil && IsSystem(name) {
		return nil, record.Refuse(record.Invalid, "log %q belongs to the system", name)
	}
	return h, refusal
}

// notHere refuses what only a node with a replica of the log can do, and names
// one.
func (f *Finder) notHere(caller Caller, name string) *record.Refusal {
	c := f.catalog.Load()
	if c == nil {
		return f.self.NotMember()
	}
	state, refusal := c.Unknown.Confirm(c, name)
	if refusal != nil {
		return refusal
	}
	l := state.Logs[name]
	if refusal := caller.identify(name, l.ID); refusal != nil {
		return refusal
	}
	r := record.Refuse(record.NotLeader, "this node does not hold log %q", name)
	if reason := f.peers.Status.Refusal(); reason != "" {
		r.Detail += ", and other nodes refuse it: " + reason
	}
	for _, at := range l.Replicas {
		if at.Node == f.me.Load().NodeID {
			return record.Refuse(record.NotLeader, "log %q is being opened on this node", name)
		}
		if f.peers.Status.Up(at.Node) && r.Leader == "" {
			r.Leader = state.Nodes[at.Node].Address
		}
	}
	return r
}

// named gives the replicas in the stages of an append the names of their nodes, before done
// is called.
func (f *Finder) named(h *hosted.Log, s *sequence.Stages, done func(sequence.Answer)) func(sequence.Answer) {
	return func(answer sequence.Answer) {
		for i := range s.Acks {
			s.Acks[i].Node = f.router.NodeName(h, s.Acks[i].Replica)
		}
		done(answer)
	}
}
