package group

import "github.com/twmb/franz-go/pkg/kerr"

// Sync is a member's request for its share. The leader's carries the shares of all members.
type Sync struct {
	MemberID, Instance string
	Generation         int32
	// The protocol that the member believes was chosen; empty: not given.
	ProtocolType, Protocol string
	Shares                 map[string][]byte // by member id; the leader's alone count
}

// Synced is the answer to a Sync.
type Synced struct {
	Err                    error
	ProtocolType, Protocol string
	Share                  []byte
}

// Sync answers a member with its share, as soon as the leader has sent the shares.
func (g *Group) Sync(now int64, s Sync, done func(Synced)) {
	m, err := g.lookUp(s.MemberID, s.Instance)
	switch {
	case err != nil:
	case s.Generation != g.generation:
		err = kerr.IllegalGeneration
	case s.ProtocolType != "" && s.ProtocolType != g.protocolType, s.Protocol != "" && s.Protocol != g.protocol:
		err = kerr.InconsistentGroupProtocol
	case g.state == Joining:
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		done(Synced{Err: err})
		return
	}
	m.alive(now)
	m.synced = true
	if g.state == Stable {
		done(g.share(m))
		return
	}
	m.answerSync(Synced{Err: kerr.RebalanceInProgress})
	m.sync = done
	if m.id != g.leader {
		return
	}
	g.state = Stable
	for _, other := range g.members {
		other.assignment = s.Shares[other.id]
		if other.sync != nil {
			other.alive(now)
			other.answerSync(g.share(other))
		}
	}
}

// Receives returns the number of bytes of memory by which a Sync enlarges the group: 0 unless it is
// the first assignment of the leader in this generation.
func (g *Group) Receives(s *Sync) int {
	m, err := g.lookUp(s.MemberID, s.Instance)
	if err != nil || m.id != g.leader || g.state != Syncing || s.Generation != g.generation {
		return 0
	}
	more := 0
	for _, other := range g.members {
		more += len(s.Shares[other.id]) - len(other.assignment)
	}
	return max(0, more)
}

func (g *Group) share(m *member) Synced {
	return Synced{ProtocolType: g.protocolType, Protocol: g.protocol, Share: m.assignment}
}
