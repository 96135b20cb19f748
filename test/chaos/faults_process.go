package chaos

import (
	"time"

	"strandline.dev/test/cluster"
)

// kill ends nodes with SIGKILL.
func kill(count howMany) func(*scene) func() {
	return func(s *scene) func() {
		nodes := s.nodes(count)
		if nodes == nil {
			return nil
		}
		for _, n := range nodes {
			n.Kill()
		}
		return func() { s.start(nodes...) }
	}
}

// start brings nodes back that do not run, all at once.
func (s *scene) start(nodes ...*cluster.Node) {
	s.over()
	s.cluster.StartTogether(nodes...)
	s.release(nodes...)
}

func pauseOne(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	n.Pause()
	return func() {
		n.Continue()
		s.over()
		s.release(n)
	}
}

// stutter gives a node the processor for some ms now and then, for as long as
// the fault lasts.
func stutter(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	for end := time.Now().Add(s.hold); time.Now().Before(end); {
		n.Pause()
		time.Sleep(time.Duration(s.dice.IntN(700)) * time.Millisecond)
		n.Continue()
		time.Sleep(time.Duration(s.dice.IntN(100)) * time.Millisecond)
	}
	return func() {
		s.over()
		s.release(n)
	}
}

func rollingRestart(s *scene) func() {
	for _, n := range s.cluster.Nodes() {
		n.Stop()
		n.Start()
		s.cluster.AwaitHealthy()
	}
	return s.over
}

func killClient(s *scene) func() {
	s.load.killChild()
	return func() {
		s.over()
		s.load.startChild()
	}
}

// clockJump restarts a node whose time of day has jumped, and lets it lead: a
// leader's clock stamps entries.
func clockJump(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	skew := time.Duration(s.dice.IntN(7200)-3600) * time.Second
	n.SetFlags("--clock-skew", skew.String())
	n.Restart()
	ctx, cancel := changing()
	defer cancel()
	// Refused while it catches up: then it only follows with that clock.
	_ = s.cluster.Client().Admin().TransferLeader(ctx, ordersLog, n.Name())
	return func() {
		n.SetFlags()
		n.Restart()
		s.over()
		s.release(n)
	}
}
