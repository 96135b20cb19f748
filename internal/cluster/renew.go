package cluster

import (
	"maps"
	"slices"

	"strandline.dev/internal/record"
)

// A replica that has lost its data has also lost its votes. It must never participate again under
// its id, so it is replaced by a new one: a learner first, then a voter, and the old id leaves in
// the same change.

// Renewal is the result of RenewReplicas.
type Renewal struct {
	Change Change
	// Memory are the lost replicas of memory logs. The node may forget them once the change is
	// recorded.
	Memory []uint64
	// Waiting is set if a log has to wait until a majority of its voters have their data without the
	// replica that is lost here. The node tries again.
	Waiting bool
}

// RenewReplicas replaces the lost replicas of a node, given by id, with new ones.
func RenewReplicas(s *State, node uint64, lost map[uint64]bool) (out Renewal) {
	next := s.NextReplica
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		r, here := l.On(node) // including a leaving one, which may still vote
		if !here || !lost[r.ID] {
			continue
		}
		taken := l.Renew(r.ID, next)
		if l.Config.InMemory() {
			out.Memory = append(out.Memory, r.ID)
		} else if !l.Survives() {
			out.Waiting = true
			continue
		}
		if taken {
			next++
		}
		out.Change.Put = append(out.Change.Put, l)
	}
	return out
}

// SurvivesWithout reports whether a majority of the log's voters would still have their data if
// the given replica were lost, too.
func (p Placement) SurvivesWithout(lost uint64) bool {
	p.Renew(lost, 0)
	return p.Survives()
}

// RenewCatalog gives a node a new replica of the catalog in place of a lost one. If the request
// is repeated, it returns the replica assigned before, and fresh is false.
func RenewCatalog(s *State, id uint64, name string, lost uint64) (node Node, c Change, fresh bool, refusal *record.Refusal) {
	node, ok := s.Nodes[id]
	if !ok || node.Name != name {
		return Node{}, c, false, record.Refuse(record.NoNode, "node %q does not belong to this cluster", name)
	}
	if node.Catalog != lost {
		return node, c, false, nil
	}
	node.Catalog = s.NextReplica
	c.Node = []Node{node}
	return node, c, true, nil
}
