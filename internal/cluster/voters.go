package cluster

import (
	"cmp"
	"slices"
)

// MaxCatalogVoters is how many nodes at the most vote on the catalog: more would
// make each change slower and the cluster no safer. The others follow it.
const MaxCatalogVoters = 5

// VotersOf is how many of so many nodes vote on the catalog: an odd number, since
// one more would have to agree and no more may fail. Of two nodes both do, so that
// the catalog is on both disks.
func VotersOf(nodes int) int {
	if nodes > 2 && nodes%2 == 0 {
		nodes--
	}
	return min(nodes, MaxCatalogVoters)
}

// Catalog is the placement of the catalog's own replicas.
func (s *State) Catalog() Placement {
	var p Placement
	for _, n := range s.Members() {
		r := Replica{ID: n.Catalog, Node: n.ID}
		if n.Leaving {
			p.Leaving = append(p.Leaving, r)
		} else {
			p.Replicas = append(p.Replicas, r)
		}
	}
	return p
}

// CatalogMembers are the replicas that the catalog itself should have. A node on
// its way out follows for as long as it holds a replica of any log: it may lead
// that log, and then it is the one to move it.
func CatalogMembers(s *State) (voters, learners []uint64) {
	for _, n := range s.Members() {
		switch {
		case n.Votes:
			voters = append(voters, n.Catalog)
		case !n.Leaving || s.Holds(n.ID):
			learners = append(learners, n.Catalog)
		}
	}
	return voters, learners
}

// votesDue moves the votes on the catalog to those who can use them. One that is
// down keeps its vote until it counts as lost, and also then if no other node can
// have it; one that is down is never given a vote.
func votesDue(s *State, v View) (due []Action) {
	const lost = 3
	var able []Node
	rank := map[uint64]int{}
	voters, there := 0, 0
	for _, n := range s.Members() {
		alive := v.Alive(n.ID)
		switch {
		case n.Leaving, !n.Votes && !alive:
			continue // it cannot have one
		case n.Votes && alive:
			rank[n.ID] = 0
		case n.Votes && !v.Lost(n.ID):
			rank[n.ID] = 1
		case alive:
			rank[n.ID] = 2
		default:
			rank[n.ID] = lost
		}
		able = append(able, n)
		if n.Votes {
			voters++
		}
		if rank[n.ID] != lost {
			there++
		}
	}
	if len(able) == 0 {
		return nil
	}
	// Nodes that are lost make neither more votes nor fewer.
	count := max(VotersOf(there), VotersOf(voters))
	slices.SortStableFunc(able, func(a, b Node) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	chosen := map[uint64]bool{}
	for _, n := range able[:count] {
		chosen[n.ID] = true
	}
	for _, n := range s.Members() {
		switch {
		case chosen[n.ID] && !n.Votes:
			due = append(due, Action{Kind: GiveVote, Node: n.ID})
		case !chosen[n.ID] && n.Votes:
			due = append(due, Action{Kind: TakeVote, Node: n.ID})
		}
	}
	return due
}

// retired are the nodes on their way out that hold nothing any more.
func retired(s *State) (nodes []uint64) {
	for _, n := range s.Members() {
		if n.Leaving && !n.Votes && !s.Holds(n.ID) {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}
