package cluster

import (
	"cmp"
	"slices"
)

// DefaultReplicas is how many nodes hold a log that does not say, once there are
// so many.
const DefaultReplicas = 3

// WantedReplicas is how many nodes a log wants to be on: as many as it was
// configured with, for ever, whether there are so many or not. One that does not
// say wants DefaultReplicas, or as many as there are nodes; those that are
// announced as peers of a cluster which is being formed count, so that a log which
// is created meanwhile is no different.
func WantedReplicas(s *State, l *Log) int {
	wanted := wantedOf(s, l, s.staying(0))
	if l.Config.Replicas == 0 {
		wanted = max(wanted, len(l.Replicas)) // it loses none because nodes go
	}
	return wanted
}

// wantedOf is how many replicas a log wants of so many members.
func wantedOf(s *State, l *Log, members int) int {
	if l.Config.Replicas > 0 {
		return l.Config.Replicas
	}
	for _, a := range s.Announced {
		if a.Expires == 0 {
			members++
		}
	}
	return min(DefaultReplicas, members)
}

// Place chooses the nodes of a new log, as many as it wants or as there are: those
// that keep its rule, then those that answer, then those with the fewest replicas. The
// first, which is to lead, is at home, or changes from log to log. None are returned if
// there is no node.
func Place(s *State, l *Log, alive func(node uint64) bool) []uint64 {
	drained := func(id uint64) int {
		if s.Nodes[id].Drained {
			return 1
		}
		return 0
	}
	down := downness(alive)
	nodes := candidates(s, alive)
	if len(nodes) == 0 {
		return nil
	}
	p := newPlacer(s, l)
	if p.rule.Empty() {
		nodes = nodes[:min(len(nodes), p.want)]
	} else if nodes = p.choose(nil, nodes); len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	first := int(l.ID % uint64(len(nodes)))
	nodes = slices.Concat(nodes[first:], nodes[:first])
	// A log is not begun by a node that does not answer.
	slices.SortStableFunc(nodes, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(down(a), down(b)), cmp.Compare(drained(a), drained(b)), cmp.Compare(p.homeRank(a), p.homeRank(b)))
	})
	return nodes
}

// placeReaders chooses the nodes of the read replicas of a new log beside its voters, as far as
// there are any.
func placeReaders(s *State, l *Log, voters []uint64, alive func(node uint64) bool) []uint64 {
	p := newPlacer(s, l)
	return p.chooseReaders(nil, voters, candidates(s, alive))
}

// candidates are the nodes that are not leaving: those that answer, then those with the fewest
// replicas first.
func candidates(s *State, alive func(node uint64) bool) (nodes []uint64) {
	for _, n := range s.Members() {
		if !n.Leaving {
			nodes = append(nodes, n.ID)
		}
	}
	load, down := s.load(), downness(alive)
	slices.SortStableFunc(nodes, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(down(a), down(b)), cmp.Compare(load[a], load[b]))
	})
	return nodes
}

// downness sorts nodes that answer before those that do not.
func downness(alive func(node uint64) bool) func(uint64) int {
	return func(id uint64) int {
		if alive(id) {
			return 0
		}
		return 1
	}
}

// load is how many replicas each node is to hold.
func (s *State) load() map[uint64]int {
	load := map[uint64]int{}
	for _, l := range s.Logs {
		for _, r := range slices.Concat(l.Replicas, l.Readers) {
			load[r.Node]++
		}
	}
	return load
}
