package node

import (
	"iter"
	"maps"
	"sync"
	"time"

	"strandline.dev/internal/replica/core"
)

// States of a log on this node, as its metrics name them.
const (
	stateLeading    = "leading"
	stateFollowing  = "following"
	stateLeaderless = "leaderless"
	stateFailed     = "failed"
	stateMending    = "mending"
)

func (h *hosted) state() string {
	switch {
	case h.mending != nil:
		return stateMending
	case h.problem() != nil:
		return stateFailed
	}
	switch s := h.replica.Status(); {
	case s.Leading:
		return stateLeading
	case s.Leader == 0:
		return stateLeaderless
	}
	return stateFollowing
}

// peersTime bounds how long a look at followers waits for the logs' loops. One that
// has not answered by then counts as it did before.
const peersTime = 500 * time.Millisecond

// lookAtFollowers asks the logs that are led here how their replicas are, all of
// them at the same time.
func (n *Node) lookAtFollowers(hosts map[string]*hosted) {
	var asked sync.WaitGroup
	for _, h := range hosts {
		if h.replica == nil || !h.replica.Status().Leading {
			continue
		}
		asked.Add(1)
		look := func(peers []core.Peer) {
			h.peers.Store(&peers)
			asked.Done()
		}
		if h.replica.Peers(look) != nil {
			asked.Done()
		}
	}
	answered := make(chan struct{})
	go func() {
		asked.Wait()
		close(answered)
	}()
	late := time.NewTimer(peersTime)
	defer late.Stop()
	select {
	case <-answered:
	case <-late.C:
	}
}

// followers is how the replicas of a log are, as its leader knows.
type followers struct {
	missing int   // replicas that do not vote or do not keep up
	lag     int64 // of the one that is farthest behind
	byNode  map[string]int64
}

func (f *followers) nodes() iter.Seq[string] { return maps.Keys(f.byNode) }

// followers of a log that is led here, as of the last look.
func (n *Node) followers(h *hosted) followers {
	f := followers{byNode: map[string]int64{}}
	peers := h.peers.Load()
	if peers == nil {
		return f
	}
	own := h.replicaID
	state := n.catalog.Load().shown.Load()
	_, end, _ := h.replica.Tail().Bounds()
	well := 0
	for _, p := range *peers {
		if p.Replica == own {
			well++
			continue
		}
		if p.Active && !p.Learner && p.State == "StateReplicate" {
			well++
		}
		lag := max(0, int64(end-p.End))
		f.lag = max(f.lag, lag)
		f.byNode[state.Nodes[n.nodeOf(h, p.Replica)].Name] = lag
	}
	wanted := len(h.replica.Status().Voters)
	if l, ok := state.Logs[h.name]; ok && l.ID == h.id {
		wanted = max(len(l.Replicas), l.Config.Replicas)
	}
	f.missing = max(0, wanted-well)
	return f
}
