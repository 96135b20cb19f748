package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// Led is a log with a leader.
type Led struct {
	Log    uint64
	Leader uint64 // node
	// Able are the other nodes that could lead it.
	Able []uint64
}

// Handover moves the leadership of a log from one node to another.
type Handover struct {
	Log, From, To uint64
}

// SpreadLeaders returns the handovers after which no node leads two logs more than another node
// that could take one of its logs, directly or through further handovers. It returns none if that
// is the case already. The result depends on nothing else, and the next call never undoes a
// handover that was carried out.
func SpreadLeaders(logs []Led) []Handover {
	s := newSpread(logs)
	for s.step() {
	}
	return s.handovers(logs)
}

// spread is a distribution of leaders that is being made even.
type spread struct {
	leads  map[uint64]int    // by node: how many logs it leads
	leader map[uint64]uint64 // by log
	able   map[uint64][]uint64
	// moves are the logs that the first node could hand over to the second. A log that the first no
	// longer leads is ignored.
	moves map[[2]uint64][]uint64
	nodes []uint64 // sorted, so that the result is the same on every node
}

func newSpread(logs []Led) *spread {
	s := &spread{
		leads: map[uint64]int{}, leader: map[uint64]uint64{}, able: map[uint64][]uint64{}, moves: map[[2]uint64][]uint64{},
	}
	for _, l := range slices.SortedFunc(slices.Values(logs), func(a, b Led) int { return cmp.Compare(a.Log, b.Log) }) {
		s.leads[l.Leader]++
		for _, node := range l.Able {
			s.leads[node] += 0 // a node that leads nothing counts, too
		}
		s.able[l.Log] = append(slices.Clone(l.Able), l.Leader)
		s.lead(l.Log, l.Leader)
	}
	s.nodes = slices.Sorted(maps.Keys(s.leads))
	return s
}

// lead makes a node the leader of a log.
func (s *spread) lead(log, node uint64) {
	s.leader[log] = node
	for _, other := range s.able[log] {
		if other != node {
			pair := [2]uint64{node, other}
			s.moves[pair] = append(s.moves[pair], log)
		}
	}
}

// step makes the distribution more even by one log, along the shortest path from a node that
// leads many logs to one that leads at least two fewer. It returns false if there is none: then
// no other distribution is more even.
func (s *spread) step() bool {
	from := slices.Clone(s.nodes)
	slices.SortStableFunc(from, func(a, b uint64) int { return cmp.Compare(s.leads[b], s.leads[a]) })
	for _, node := range from {
		if way := s.way(node); way != nil {
			for i := len(way) - 1; i > 0; i-- { // from the end: each node gives a log away before it takes one
				log, _ := s.movable(way[i-1], way[i])
				s.lead(log, way[i])
			}
			s.leads[way[0]]--
			s.leads[way[len(way)-1]]++
			return true
		}
	}
	return false
}

// way returns the shortest path of handovers from a node to one that leads at least two logs
// fewer, or nil if there is none.
func (s *spread) way(from uint64) []uint64 {
	came := map[uint64]uint64{from: from}
	for queue := []uint64{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if s.leads[at] <= s.leads[from]-2 {
			way := []uint64{at}
			for at != from {
				at = came[at]
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
		for _, next := range s.nodes {
			if _, seen := came[next]; seen {
				continue
			}
			if _, can := s.movable(at, next); can {
				came[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// movable returns a log that the node from leads and the node to could lead.
func (s *spread) movable(from, to uint64) (log uint64, can bool) {
	pair := [2]uint64{from, to}
	logs := s.moves[pair]
	for len(logs) > 0 && s.leader[logs[0]] != from {
		logs = logs[1:]
	}
	s.moves[pair] = logs
	if len(logs) == 0 {
		return 0, false
	}
	return logs[0], true
}

// handovers returns the changes from the original leaders of logs.
func (s *spread) handovers(logs []Led) (all []Handover) {
	for _, l := range logs {
		if now := s.leader[l.Log]; now != l.Leader {
			all = append(all, Handover{l.Log, l.Leader, now})
		}
	}
	slices.SortFunc(all, func(a, b Handover) int { return cmp.Compare(a.Log, b.Log) })
	return all
}
