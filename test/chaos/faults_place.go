package chaos

import (
	"slices"
	"time"

	"strandline.dev/test/cluster"
)

// Nodes are in three datacenters, over which the replicas of each log are spread, so that the
// loss of any of them leaves a majority.
var datacenters = []string{"fra", "ams", "par"}

// datacenter of a node: of those that formed the cluster by turns, of others that of the node
// whose place they take.
func (s *scene) datacenter(node string) string {
	if dc := s.places[node]; dc != "" {
		return dc
	}
	return datacenters[int(node[0]-'a')%len(datacenters)]
}

// within takes the nodes of a datacenter that run and that no fault has; nil: there are none.
func (s *choice) within(dc string) (nodes []*cluster.Node) {
	for _, n := range s.cluster.Nodes() {
		if n.Running() && !s.taken[n.Name()] && s.datacenter(n.Name()) == dc {
			nodes = append(nodes, s.take(n))
		}
	}
	return nodes
}

// loseDatacenter kills all nodes of one at once.
func loseDatacenter(s *scene) func() {
	nodes := s.within(s.pick(datacenters))
	if nodes == nil {
		return nil
	}
	for _, n := range nodes {
		n.Kill()
	}
	return func() { s.start(nodes...) }
}

// betweenDatacenters makes a kind of what is done to each link between the nodes of a
// datacenter and all others; undo ends it.
func betweenDatacenters(begin func(s *scene) (do, undo func(a, b string))) func(*scene) func() {
	return func(s *scene) func() {
		nodes, linked := s.within(s.pick(datacenters)), s.cluster.Linked()
		var pairs [][2]string
		for _, n := range nodes {
			for _, other := range linked {
				if slices.Contains(linked, n.Name()) && s.datacenter(other) != s.datacenter(n.Name()) {
					pairs = append(pairs, [2]string{n.Name(), other})
				}
			}
		}
		if pairs == nil {
			s.release(nodes...)
			return nil
		}
		do, undo := begin(s)
		for _, p := range pairs {
			do(p[0], p[1])
		}
		return func() {
			for _, p := range pairs {
				undo(p[0], p[1])
			}
			s.over()
			s.release(nodes...)
		}
	}
}

var (
	splitDatacenter = betweenDatacenters(func(s *scene) (do, undo func(a, b string)) {
		return s.cluster.Partition, func(string, string) { s.cluster.Heal() }
	})
	slowDatacenter = betweenDatacenters(func(s *scene) (do, undo func(a, b string)) {
		distance := time.Duration(5+s.dice.IntN(145)) * time.Millisecond
		return func(a, b string) { s.cluster.Delay(a, b, distance) }, func(a, b string) { s.cluster.Delay(a, b, 0) }
	})
)
