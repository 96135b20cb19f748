package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// MaxMoving is how many logs get new replicas at the same time without an operator's request:
// each reads its whole log on one node and writes it on another.
const MaxMoving = 16

// replicasDue returns the actions that add replicas to logs that have too few, remove surplus
// ones, and spread replicas over the nodes if that was requested.
func replicasDue(s *State, v View) (due []Action) {
	load, free := s.load(), MaxMoving
	for _, l := range s.Logs {
		if slices.ContainsFunc(slices.Concat(l.Replicas, l.Readers), func(r Replica) bool { return r.New && v.Alive(r.Node) }) {
			free--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		l := s.Logs[name]
		if !l.Settled() {
			continue // one step at a time
		}
		a, found := replicaDue(s, &l, load, v)
		moves := a.To != 0
		if !found || moves && free <= 0 {
			continue
		}
		due = append(due, a)
		if a.Node != 0 {
			load[a.Node]--
		}
		if moves {
			load[a.To]++
			free--
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

// replicaDue returns the action that brings a log one step closer to the replicas that it should
// have: voters first, then read replicas.
func replicaDue(s *State, l *Log, load map[uint64]int, v View) (a Action, found bool) {
	have, want := len(l.Replicas), WantedReplicas(s, l)
	switch {
	case have < want:
		if to := leastLoaded(s, l, 0, load, v); to != 0 {
			return Action{Kind: AddReplica, Log: l.Name, To: to}, true
		}
		if node := blockingReadReplica(s, l, func(l *Log) uint64 { return leastLoaded(s, l, 0, load, v) }); node != 0 {
			return Action{Kind: RemoveReplica, Log: l.Name, Node: node}, true
		}
	case have > want:
		return Action{Kind: RemoveReplica, Log: l.Name, Node: superfluous(s, l, load, v)}, true
	default:
		if from, to := misplaced(s, l, load, v); to != 0 {
			return Action{Kind: MoveReplica, Log: l.Name, Node: from, To: to}, true
		}
		node := blockingReadReplica(s, l, func(l *Log) uint64 {
			_, to := misplaced(s, l, load, v)
			return to
		})
		if node != 0 {
			return Action{Kind: RemoveReplica, Log: l.Name, Node: node}, true
		}
	}
	return readReplicasDue(s, l, load, v)
}

// SpreadReplicas returns the moves after which every reachable node holds as many replicas as the
// others, or one more, as far as the rules of the logs permit.
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
			holders := nodesOf(l.Replicas)
			slices.SortStableFunc(holders, func(a, b uint64) int { return cmp.Compare(load[b], load[a]) })
			if s.RuleOf(&l).Empty() {
				holders = holders[:min(len(holders), 1)] // a node that may take any of them may take the first
			}
			for _, from := range holders {
				to := leastLoaded(s, &l, from, load, v)
				if to == 0 || !v.Alive(from) || load[from]-load[to] < 2 {
					continue
				}
				moves = append(moves, Action{Kind: MoveReplica, Log: name, Node: from, To: to})
				load[from]--
				load[to]++
				moved[name], again = true, true
				break
			}
		}
	}
	return moves
}

// leastLoaded returns the reachable node with the fewest replicas that has no replica of the log
// and, by the log's rule, may take one in place of that on the node from (0: of none); 0 if there
// is none.
func leastLoaded(s *State, l *Log, from uint64, load map[uint64]int, v View) uint64 {
	p, now := newPlacer(s, l), nodesOf(l.Replicas)
	limit := p.cost(now)
	if from == 0 || s.Nodes[from].Leaving {
		limit = p.voterLimit(now)
	}
	return p.best(without(now, from), byLoad(s, l, load, v), limit)
}

// byLoad returns the reachable nodes without a replica of the log, those with the fewest replicas
// first.
func byLoad(s *State, l *Log, load map[uint64]int, v View) (able []uint64) {
	for _, n := range s.Members() {
		if _, here := l.On(n.ID); !here && !n.Leaving && v.Alive(n.ID) {
			able = append(able, n.ID)
		}
	}
	slices.SortStableFunc(able, func(a, b uint64) int { return cmp.Compare(load[a], load[b]) })
	return able
}

func without(nodes []uint64, node uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(nodes), func(n uint64) bool { return n == node })
}

// misplaced returns a replica that violates its log's rule and a node where it would violate it
// less; 0, 0 if there is none.
func misplaced(s *State, l *Log, load map[uint64]int, v View) (from, to uint64) {
	p, now := newPlacer(s, l), nodesOf(l.Replicas)
	lowest := p.cost(now)
	if lowest == 0 {
		return 0, 0
	}
	for _, node := range now {
		other := leastLoaded(s, l, node, load, v)
		if other == 0 {
			continue
		}
		if cost := p.cost(append(without(now, node), other)); cost < lowest {
			from, to, lowest = node, other, cost
		}
	}
	return from, to
}

// superfluous returns the node whose replica a log with too many should lose: preferably one that
// cannot be reached, since the others have to commit the removal; then the one without which the
// rule is met best; then the one with the most replicas. misplaced corrects the rest.
func superfluous(s *State, l *Log, load map[uint64]int, v View) uint64 {
	p, now := newPlacer(s, l), nodesOf(l.Replicas)
	return slices.MinFunc(now, func(a, b uint64) int {
		switch {
		case !v.Alive(a) && v.Alive(b):
			return -1
		case v.Alive(a) && !v.Alive(b):
			return 1
		}
		return cmp.Or(cmp.Compare(p.cost(without(now, a)), p.cost(without(now, b))), cmp.Compare(load[b], load[a]))
	})
}
