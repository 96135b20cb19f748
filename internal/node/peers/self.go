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

// Self is this node as other nodes see it.
type Self struct {
	options *settings.Options
	me      *datadir.Me
	// DamagedCatalog is the replica of the catalog while it is under repair and the node cannot
	// begin; otherwise nil.
	DamagedCatalog atomic.Pointer[hosted.Log]
}

// NewSelf returns the node with an identity and options.
func NewSelf(options *settings.Options, me *datadir.Me) *Self { return &Self{options: options, me: me} }

func (s *Self) NotMember() *record.Refusal {
	if h := s.DamagedCatalog.Load(); h != nil {
		return record.Refuse(record.NotMember, "node %q cannot take part: %s", s.Name(), h.Unavailable.Load().Detail)
	}
	return record.Refuse(record.NotMember,
		"node %q is in no cluster yet: form one with `strandline cluster init` on one of its nodes, or add this node with `strandline cluster add-node`", s.options.Name)
}

// PeerNode returns the description of this node for its Hello.
func (s *Self) PeerNode() peer.Node {
	return peer.Node{ID: s.me.Load().NodeID, Name: s.me.Load().Name, Address: s.options.GRPCAddress}
}

// Name returns the name of this node in the cluster, or the name under which it will join.
func (s *Self) Name() string {
	if me := s.me.Load(); me.Member() {
		return me.Name
	}
	return s.options.Name
}

// RefuseLevel returns a refusal if this node does not understand the feature level of a cluster.
func (s *Self) RefuseLevel(state *cluster.State) *record.Refusal {
	return cluster.RefuseLevels(s.Name(), s.options.Levels, state.FeatureLevel())
}

// Outdated is RefuseLevel for a level that is newer than this node's program.
func (s *Self) Outdated(state *cluster.State) *record.Refusal {
	if state.FeatureLevel() <= s.options.Levels.Max {
		return nil
	}
	return s.RefuseLevel(state)
}

// ClusterID returns the id of the node's cluster. It is empty while the node waits to become a
// member.
func (s *Self) ClusterID() string { return s.me.Load().ClusterID }

// TopicID returns the id of the topic whose partition 0 is a log of this cluster.
func (s *Self) TopicID(log uint64) cluster.TopicID { return cluster.TopicIDOf(s.ClusterID(), log) }

func (s *Self) former() []string { return s.me.Load().Former }

// Now returns the time of day of this node, which may jump. Timeouts use a monotonic clock instead.
func (s *Self) Now() time.Time { return time.Now().Add(s.options.ClockSkew) }

// Reach returns the address at which this node reaches another one.
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
