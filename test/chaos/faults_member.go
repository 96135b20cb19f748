package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

// changeTime bounds a change of the membership, and all else that is asked of the
// cluster while it has a fault.
const changeTime = time.Minute

func changing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), changeTime)
}

// lostDisk: the node never comes back.
func lostDisk(s *scene) func() {
	lost := s.node()
	if lost == nil {
		return nil
	}
	lost.Kill()
	lost.Wipe()
	return func() {
		s.over()
		s.moveTo(s.cluster.Join(s.newName(lost)), lost)
	}
}

// replace moves everything from a node, and stops it.
func replace(s *scene) func() {
	old := s.node()
	if old == nil {
		return nil
	}
	s.over()
	s.moveTo(s.cluster.Join(s.newName(old)), old)
	return s.over
}

// moveTo puts one node into the place of another, dead or alive.
func (s *scene) moveTo(fresh, old *cluster.Node) {
	ctx, cancel := changing()
	defer cancel()
	require.NoError(s.t, s.cluster.Client().Admin().ReplaceNode(ctx, old.Name(), fresh.Name()), "replace node %s", old.Name())
	for _, log := range logs {
		s.cluster.AwaitMoved(log, old.Name())
	}
	if old.Running() {
		old.Stop()
	}
	s.drop(old)
}

// drop forgets a node that was taken out, and its disk.
func (s *scene) drop(n *cluster.Node) {
	s.cluster.Forget(n.Name())
	s.release(n)
	if disk := s.disks[n.Name()]; disk != nil {
		delete(s.disks, n.Name())
		require.NoError(s.t, disk.Close())
	}
	s.load.moved(s.addresses())
}

func addRemove(s *scene) func() {
	n := s.cluster.Join(s.newName(s.cluster.Nodes()[0]))
	return func() {
		s.over()
		ctx, cancel := changing()
		defer cancel()
		require.NoError(s.t, s.cluster.Client().Admin().RemoveNode(ctx, n.Name()), "remove node %s", n.Name())
		n.Stop()
		s.drop(n)
	}
}

// transfer hands the leadership over. That may be refused while other faults are
// there.
func transfer(s *scene) func() {
	leader := s.cluster.Leader(ordersLog)
	status, err := s.cluster.Status()
	if err != nil {
		return nil
	}
	var others []string
	for _, log := range status.Logs {
		for _, r := range log.Replicas {
			if log.Name == ordersLog && r.Node != leader {
				others = append(others, r.Node)
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	ctx, cancel := changing()
	defer cancel()
	if err := s.cluster.Client().Admin().TransferLeader(ctx, ordersLog, s.pick(others)); err != nil {
		s.without = "refused: " + err.Error()
	}
	return s.over
}

func trimAll(s *scene) func() {
	for _, log := range logs {
		s.load.trimAll(log)
	}
	return s.over
}
