package cluster

import (
	"maps"
	"slices"

	"strandline.dev/internal/record"
)

// A replica that has lost what it knew has forgotten its votes with it. It must
// never speak again under its id, so it gets another one, as if it were new: a
// learner first, then a voter, and the old id leaves in the same change.

// Renewal is the outcome of RenewReplicas.
type Renewal struct {
	Change Change
	// Memory are the lost replicas of memory logs, which the node may forget once
	// the change is recorded.
	Memory []uint64
	// Waiting: a log has to wait until a majority of its voters remember what they
	// stored without the replica that is lost here. The node tries again.
	Waiting bool
}

// RenewReplicas gives a node new replicas in the places of those it has lost, by id.
func RenewReplicas(s *State, node uint64, lost map[uint64]bool) (out Renewal) {
	next := s.NextReplica
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		r, here := l.On(node) // one that is leaving may count as much as the others
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

// SurvivesWithout reports whether a majority of the log's voters still know what
// they stored when another one is lost too.
func (p Placement) SurvivesWithout(lost uint64) bool {
	p.Renew(lost, 0)
	return p.Survives()
}

// RenewCatalog gives a node a new replica of the catalog in the place of one that it
// has lost. Asked again, it returns the replica that was given before, and fresh is
// false.
func RenewCatalog(s *State, id uint64, name string, lost uint64) (node Node, c Change, fresh bool, refusal *record.Refusal) {
	node, ok := s.Nodes[id]
	if !ok || node.Name != name {
		return Node{}, c, false, record.Refuse(record.NoNode, "node %q is not in this cluster", name)
	}
	if node.Catalog != lost {
		return node, c, false, nil
	}
	node.Catalog = s.NextReplica
	c.Node = []Node{node}
	return node, c, true, nil
}
