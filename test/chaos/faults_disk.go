package chaos

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

// powerCut takes the power of nodes away, of all at the same time as far as that
// goes. The processes live some ms longer than their disks, and may not
// acknowledge anything meanwhile.
func powerCut(count howMany) func(*scene) func() {
	return func(s *scene) func() {
		nodes := s.nodes(count)
		if nodes == nil {
			return nil
		}
		if len(s.disks) == 0 {
			s.without = "no loop mounts: killed with -9 instead"
		}
		s.cut(nodes)
		for _, n := range nodes {
			s.endNode(n)
		}
		return func() {
			s.remount(nodes)
			s.start(nodes...)
		}
	}
}

// cut takes the power of the disks away.
func (s *scene) cut(nodes []*cluster.Node) {
	for _, n := range nodes {
		n.Expect()
		if disk := s.disks[n.Name()]; disk != nil {
			require.NoError(s.t, disk.Cut())
		}
	}
}

func (s *scene) remount(nodes []*cluster.Node) {
	for _, n := range nodes {
		if disk := s.disks[n.Name()]; disk != nil {
			require.NoError(s.t, disk.Remount())
		}
	}
}

// endNode kills a node that may have ended by itself.
func (s *scene) endNode(n *cluster.Node) {
	if n.Running() {
		n.Kill()
	}
}

func deadDisk(s *scene) func() {
	nodes := s.nodes(one)
	if nodes == nil {
		return nil
	}
	s.cut(nodes)
	return func() {
		s.endNode(nodes[0])
		s.remount(nodes)
		s.start(nodes...)
	}
}

func hungDisk(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	disk := s.disks[n.Name()]
	require.NoError(s.t, disk.Freeze())
	return func() {
		require.NoError(s.t, disk.Thaw())
		s.over()
		s.release(n)
	}
}

// nearlyFull: the node has to resume by itself when there is room again.
func nearlyFull(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	disk := s.disks[n.Name()]
	require.NoError(s.t, disk.Fill(16<<20))
	return func() {
		require.NoError(s.t, disk.Empty())
		s.over()
		s.release(n)
	}
}

// fullDisk hits a node that is configured to keep nothing free, so that its writes
// fail. A log that could not be written needs a restart.
func fullDisk(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	n.SetFlags("--min-free", "1B")
	n.Restart()
	n.Expect()
	disk := s.disks[n.Name()]
	require.NoError(s.t, disk.Fill(0))
	return func() {
		s.endNode(n)
		require.NoError(s.t, disk.Empty())
		n.SetFlags()
		s.start(n)
	}
}

func slowDisk(s *scene) func() {
	n := s.node()
	if n == nil {
		return nil
	}
	n.SetFlags("--fsync-delay", fmt.Sprint(time.Duration(1+s.dice.IntN(100))*time.Millisecond))
	n.Restart()
	return func() {
		n.SetFlags()
		n.Restart()
		s.over()
		s.release(n)
	}
}
