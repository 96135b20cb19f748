package node

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// self is who this node is.
type self struct {
	options *Options
	// me is never nil; it becomes that of a member once.
	me *atomic.Pointer[datadir.Identity]
	// damagedCatalog is a replica of the catalog with which this node cannot begin and
	// which is being repaired; else nil.
	damagedCatalog *atomic.Pointer[hosted]
}

func (s *self) notMember() *record.Refusal {
	if h := s.damagedCatalog.Load(); h != nil {
		return record.Refuse(record.NotMember, "node %q cannot take part: %s", s.Name(), h.unavailable.Load().Detail)
	}
	return record.Refuse(record.NotMember,
		"node %q is in no cluster yet: form one with `strandline cluster init` on one of its nodes, or add this node with `strandline cluster add-node`", s.options.Name)
}

// peerNode is this node as it says hello to others.
func (s *self) peerNode() peer.Node {
	return peer.Node{ID: s.me.Load().NodeID, Name: s.me.Load().Name, Address: s.options.GRPCAddress}
}

// Name is what the cluster calls this node, or will.
func (s *self) Name() string {
	if me := s.me.Load(); me.Member() {
		return me.Name
	}
	return s.options.Name
}

// refuseLevel refuses that this node takes part in a cluster of a feature level that it
// does not understand.
func (s *self) refuseLevel(state *cluster.State) *record.Refusal {
	return cluster.RefuseLevels(s.Name(), s.options.Levels, state.FeatureLevel())
}

// outdated is refuseLevel for a level that is newer than this node's program.
func (s *self) outdated(state *cluster.State) *record.Refusal {
	if state.FeatureLevel() <= s.options.Levels.Max {
		return nil
	}
	return s.refuseLevel(state)
}

// ClusterID names the cluster that the node is a member of; empty: it waits.
func (s *self) ClusterID() string { return s.me.Load().ClusterID }

// now is the time of day as this node sees it. What must not jump counts time
// that does not.
func (s *self) now() time.Time { return time.Now().Add(s.options.ClockSkew) }

// reach is the address at which this node reaches another one.
func (s *self) reach(other cluster.Node) string {
	if mine, ok := s.options.Peers[other.Name]; ok {
		return mine
	}
	return other.Address
}

func (s *self) candidate() cluster.Candidate {
	return cluster.Candidate{
		Name: s.options.Name, Cluster: s.me.Load().ClusterID, Peers: slices.Sorted(maps.Keys(s.options.Peers)), Levels: s.options.Levels,
	}
}
