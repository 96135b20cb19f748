package cluster

import (
	"maps"
	"slices"
)

// MaxMoving is how many logs get new replicas at the same time without having been
// told to by an operator: each reads its whole log on one node and writes it on
// another.
const MaxMoving = 16

// replicasDue adds replicas to logs that have too few, as nodes come, removes those
// that are too many, and spreads replicas over the nodes if that was asked for.
func replicasDue(s *State, v View) (due []Action) {
	load, free := s.load(), MaxMoving
	for _, l := range s.Logs {
		if slices.ContainsFunc(l.Replicas, func(r Replica) bool { return r.New && v.Alive(r.Node) }) {
			free--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		if !l.Settled() {
			continue // one step after the other
		}
		have, want := len(l.Replicas), WantedReplicas(s, &l)
		switch {
		case have < want && free > 0:
			if to := leastLoaded(s, &l, load, v); to != 0 {
				due = append(due, Action{Kind: AddReplica, Log: name, To: to})
				load[to]++
				free--
			}
		case have > want:
			from := mostLoaded(&l, load, v)
			due = append(due, Action{Kind: RemoveReplica, Log: name, Node: from})
			load[from]--
		}
	}
	if s.Spreading && len(due) == 0 {
		moves := SpreadReplicas(s, v)
		due = append(due, moves[:min(len(moves), max(free, 0))]...)
		if len(moves) == 0 {
			due = append(due, Action{Kind: StopSpreading})
		}
	}
	return due
}

// SpreadReplicas are the moves after which every node that can be reached holds as many
// replicas as the others, or one more.
func SpreadReplicas(s *State, v View) (moves []Action) {
	load := s.load()
	names := slices.Sorted(maps.Keys(s.Logs))
	moved := map[string]bool{}
	for again := true; again; {
		again = false
		for _, name := range names {
			l := s.Logs[name]
			if moved[name] || !l.Settled() {
				continue
			}
			from, to := mostLoaded(&l, load, View{Alive: func(uint64) bool { return true }}), leastLoaded(s, &l, load, v)
			if to == 0 || !v.Alive(from) || load[from]-load[to] < 2 {
				continue
			}
			moves = append(moves, Action{Kind: MoveReplica, Log: name, Node: from, To: to})
			load[from]--
			load[to]++
			moved[name], again = true, true
		}
	}
	return moves
}

// leastLoaded is the node that can be reached, has no replica of a log, and holds
// the fewest; 0: there is none.
func leastLoaded(s *State, l *Log, load map[uint64]int, v View) (best uint64) {
	for _, n := range s.Members() {
		if _, here := l.On(n.ID); here || n.Leaving || !v.Alive(n.ID) {
			continue
		}
		if best == 0 || load[n.ID] < load[best] {
			best = n.ID
		}
	}
	return best
}

// mostLoaded is the node with a replica of a log that cannot be reached, or else
// holds the most.
func mostLoaded(l *Log, load map[uint64]int, v View) (worst uint64) {
	for _, r := range l.Replicas {
		switch {
		case worst == 0, v.Alive(worst) && !v.Alive(r.Node):
			worst = r.Node
		case v.Alive(worst) == v.Alive(r.Node) && load[r.Node] > load[worst]:
			worst = r.Node
		}
	}
	return worst
}
