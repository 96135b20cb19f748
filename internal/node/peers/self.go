package peers

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Self is who this node is.
type Self struct {
	options *settings.Options
	me      *datadir.Me
	// DamagedCatalog is a replica of the catalog with which this node cannot begin and
	// which is being repaired; else nil.
	DamagedCatalog atomic.Pointer[hosted.Log]
}

// NewSelf returns the node of an identity, as its options describe it.
func NewSelf(options *settings.Options, me *datadir.Me) *Self { return &Self{options: options, me: me} }

func (s *Self) NotMember() *record.Refusal {
	if h := s.DamagedCatalog.Load(); h != nil {
		return record.Refuse(record.NotMember, "node %q cannot take part: %s", s.Name(), h.Unavailable.Load().Detail)
	}
	return record.Refuse(record.NotMember,
		"node %q is in no cluster yet: form one with `strandline cluster init` on one of its nodes, or add this node with `strandline cluster add-node`", s.options.Name)
}

// PeerNode is this node as it says hello to others.
func (s *Self) PeerNode() peer.Node {
	return peer.Node{ID: s.me.Load().NodeID, Name: s.me.Load().Name, Address: s.options.GRPCAddress}
}

// Name is what the cluster calls this node, or will.
func (s *Self) Name() string {
	if me := s.me.Load(); me.Member() {
		return me.Name
	}
	return s.options.Name
}

// RefuseLevel refuses that this node takes part in a cluster of a feature level that it
// does not understand.
func (s *Self) RefuseLevel(state *cluster.State) *record.Refusal {
	return cluster.RefuseLevels(s.Name(), s.options.Levels, state.FeatureLevel())
}

// Outdated is refuseLevel for a level that is newer than this node's program.
func (s *Self) Outdated(state *cluster.State) *record.Refusal {
	if state.FeatureLevel() <= s.options.Levels.Max {
		return nil
	}
	return s.RefuseLevel(state)
}

// ClusterID names the cluster that the node is a member of; empty: it waits.
func (s *Self) ClusterID() string { return s.me.Load().ClusterID }

func (s *Self) former() []string { return s.me.Load().Former }

// Now is the time of day as this node sees it. What must not jump counts time
// that does not.
func (s *Self) Now() time.Time { return time.Now().Add(s.options.ClockSkew) }

// Reach is the address at which this node reaches another one.
func (s *Self) Reach(other cluster.Node) string {
	if mine, ok := s.options.Peers[other.Name]; ok {
		return mine
	}
	return other.Address
}

func (s *Self) Candidate() cluster.Candidate {
	return cluster.Candidate{
		Name: s.options.Name, Cluster: s.me.Load().ClusterID, Peers: slices.Sorted(maps.Keys(s.options.Peers)), Levels: s.options.Levels,
	}
}
