package cluster

import (
	"cmp"
	"slices"
)

// DefaultReplicas is the number of replicas of a log whose configuration does not set it, once
// there are as many nodes.
const DefaultReplicas = 3

// WantedReplicas returns how many replicas a log should have: the configured number, whether
// there are as many nodes or not. If none is configured, it is DefaultReplicas or the number of
// nodes, whichever is lower. Announced peers of a cluster that is being formed count as nodes, so
// that a log created meanwhile is no different.
func WantedReplicas(s *State, l *Log) int {
	wanted := wantedOf(s, l, s.staying(0))
	if l.Config.Replicas == 0 {
		wanted = max(wanted, len(l.Replicas)) // it loses none when nodes leave
	}
	return wanted
}

// wantedOf returns how many replicas a log should have in a cluster with the given number of
// members.
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

// Place chooses the nodes of a new log, as many as it should have or as there are. It prefers
// nodes that meet the log's rule, then those that answer, then those with the fewest replicas.
// The first one, which will lead, is at home, or changes from log to log. Place returns none if
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
	// A node that does not answer must not be the first leader.
	slices.SortStableFunc(nodes, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(down(a), down(b)), cmp.Compare(drained(a), drained(b)), cmp.Compare(p.homeRank(a), p.homeRank(b)))
	})
	return nodes
}

// placeReadReplicas chooses the nodes of the read replicas of a new log, as far as there are any
// besides those of its voters.
func placeReadReplicas(s *State, l *Log, voters []uint64, alive func(node uint64) bool) []uint64 {
	p := newPlacer(s, l)
	return p.chooseReadReplicas(nil, voters, candidates(s, alive))
}

// candidates returns the nodes that are not leaving: first those that answer, then by the number
// of their replicas, lowest first.
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

// downness returns a sort key that puts nodes that answer before those that do not.
func downness(alive func(node uint64) bool) func(uint64) int {
	return func(id uint64) int {
		if alive(id) {
			return 0
		}
		return 1
	}
}

// load returns the number of replicas placed on each node.
func (s *State) load() map[uint64]int {
	load := map[uint64]int{}
	for _, l := range s.Logs {
		for _, r := range slices.Concat(l.Replicas, l.Readers) {
			load[r.Node]++
		}
	}
	return load
}
