package cluster

import (
	"cmp"
	"slices"
)

// MaxCatalogVoters is the maximum number of nodes that vote on the catalog: more would make each
// change slower and the cluster no safer. The others follow it.
const MaxCatalogVoters = 5

// VotersOf returns how many of the given number of nodes vote on the catalog. It is odd, since
// one more would have to agree and no more may fail. Of two nodes both vote, so that the catalog
// is on both disks.
func VotersOf(nodes int) int {
	if nodes > 2 && nodes%2 == 0 {
		nodes--
	}
	return min(nodes, MaxCatalogVoters)
}

// Catalog returns the placement of the catalog's own replicas.
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

// CatalogMembers returns the replicas that the catalog itself should have. A leaving node follows
// for as long as it holds a replica of any log: it may lead that log, and then has to move it.
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

// votesDue returns the actions that move the votes on the catalog to nodes that can use them. A
// node that is down keeps its vote until it counts as lost, and longer if no other node can have
// it. A node that is down is never given a vote.
func votesDue(s *State, v View) (due []Action) {
	const lost = 3
	var able []Node
	rank := map[uint64]int{}
	voters, there := 0, 0
	for _, n := range s.Members() {
		alive := v.Alive(n.ID)
		switch {
		case n.Leaving, !n.Votes && !alive:
			continue // it cannot have a vote
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
	// Lost nodes neither add votes nor remove any.
	count := max(VotersOf(there), VotersOf(voters))
	slices.SortStableFunc(able, func(a, b Node) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	gone := slices.IndexFunc(able, func(n Node) bool { return rank[n.ID] == lost })
	if gone < 0 {
		gone = len(able)
	}
	// Lost nodes come last, even if the rule prefers one of them: a vote moves at once, and back,
	// and until then it is better where it can be used.
	able = append(spreadVotes(s, able[:gone], count), able[gone:]...)
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

// spreadVotes reorders nodes so that, among the first ones, as many as there are votes, less than
// half have the same value of the label by which the default rule for the catalog's name spreads,
// if there are enough values.
func spreadVotes(s *State, nodes []Node, votes int) []Node {
	rule := s.RuleOf(&Log{Name: CatalogName})
	if rule.Empty() || rule.Spread == "" {
		return nodes
	}
	var first, then []Node
	taken := map[Label]int{}
	for _, n := range nodes {
		value := n.label(rule.Spread)
		if value == "" || taken[value] >= max(1, (votes-1)/2) {
			then = append(then, n)
			continue
		}
		taken[value]++
		first = append(first, n)
	}
	return append(first, then...)
}

// retired returns the leaving nodes that hold nothing any more.
func retired(s *State) (nodes []uint64) {
	for _, n := range s.Members() {
		if n.Leaving && !n.Votes && !s.Holds(n.ID) {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}

// Retire returns the change to record once Raft's configuration of the catalog is CatalogMembers:
// leaving nodes that hold nothing are no longer members.
func Retire(s *State) Change { return Change{Gone: retired(s)} }

// Leaving reports whether a node is leaving.
func (s *State) Leaving() bool {
	for _, n := range s.Nodes {
		if n.Leaving {
			return true
		}
	}
	return false
}
