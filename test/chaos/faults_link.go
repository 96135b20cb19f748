package chaos

import (
	"time"

	"strandline.dev/test/cluster"
)

// linked is a node behind proxies, and all others that are.
func (s *scene) linked() (n *cluster.Node, others []string) {
	names := s.cluster.Linked()
	if n = s.nodeOf(names); n == nil {
		return nil, nil
	}
	for _, name := range names {
		if name != n.Name() {
			others = append(others, name)
		}
	}
	if others == nil {
		s.release(n)
		return nil, nil
	}
	return n, others
}

// onLinks makes a kind of what is done to the links between a node and others,
// and ends with Heal.
func onLinks(do func(s *scene, node string, others []string)) func(*scene) func() {
	return func(s *scene) func() {
		n, others := s.linked()
		if n == nil {
			return nil
		}
		do(s, n.Name(), others)
		return func() {
			s.cluster.Heal()
			s.over()
			s.release(n)
		}
	}
}

func (s *choice) pick(names []string) string { return names[s.dice.IntN(len(names))] }

var (
	isolate = onLinks(func(s *scene, node string, others []string) {
		for _, other := range others {
			s.cluster.Partition(node, other)
		}
	})
	partition = onLinks(func(s *scene, node string, others []string) {
		s.cluster.Partition(node, s.pick(others))
	})
	oneWay = onLinks(func(s *scene, node string, others []string) {
		s.cluster.PartitionOneWay(node, s.pick(others))
	})
	deaf = onLinks(func(s *scene, node string, others []string) {
		for _, other := range others {
			s.cluster.PartitionOneWay(other, node)
		}
	})
	mute = onLinks(func(s *scene, node string, others []string) {
		for _, other := range others {
			s.cluster.PartitionOneWay(node, other)
		}
	})
	reset = onLinks(func(s *scene, node string, others []string) {
		for end := time.Now().Add(s.hold); ; {
			for _, other := range others {
				s.cluster.Cut(node, other)
			}
			pause := time.Duration(s.dice.IntN(200)) * time.Millisecond
			if time.Now().Add(pause).After(end) {
				return
			}
			time.Sleep(pause)
		}
	})
)

func flap(s *scene) func() {
	n, others := s.linked()
	if n == nil {
		return nil
	}
	period := time.Duration(100+s.dice.IntN(900)) * time.Millisecond
	var stops []func()
	for _, other := range others[:1+s.dice.IntN(len(others))] {
		stops = append(stops, s.cluster.Flap(n.Name(), other, period))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
		s.over()
		s.release(n)
	}
}

// halfOpen: nobody learns that the connections of the node have died, and when
// they are, the node has had a new life for some time.
func halfOpen(s *scene) func() {
	n, others := s.linked()
	if n == nil {
		return nil
	}
	for _, other := range others {
		s.cluster.Partition(n.Name(), other)
	}
	n.Kill()
	n.Start()
	return func() {
		s.cluster.Heal()
		s.over()
		s.release(n)
	}
}

func far(s *scene) func() {
	n, others := s.linked()
	if n == nil {
		return nil
	}
	distance := time.Duration(10+s.dice.IntN(190)) * time.Millisecond
	for _, other := range others {
		s.cluster.Delay(n.Name(), other, distance)
	}
	return func() {
		for _, other := range others {
			s.cluster.Delay(n.Name(), other, 0)
		}
		s.over()
		s.release(n)
	}
}
