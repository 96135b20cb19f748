package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/replica/core"
)

// statuses says how this node and its cluster are.
type statuses struct {
	options *Options
	logger  *slog.Logger
	catalog *atomic.Pointer[catalog]
	logs    *hostedLogs
	self    *self
	caller  *caller
	router  *router
	space   *space
	memory  *budget.Memory
}

// statusTime is how long a node may take to report before it counts as
// not answering.
const statusTime = 1500 * time.Millisecond

// report is what a node says of itself.
type report struct {
	Version     string               `json:"version"`
	Levels      cluster.Levels       `json:"levels,omitzero"`
	BytesFree   int64                `json:"bytes_free"`
	BytesTotal  int64                `json:"bytes_total"`
	MemoryUsed  int64                `json:"memory_used"`
	MemoryTotal int64                `json:"memory_total"`
	Logs        map[uint64]logReport `json:"logs"` // that it holds, by id
}

// votersWithoutLeader are the voters as whoever has most of the log knows them,
// or, if no replica answers, as the catalog does.
func votersWithoutLeader(l cluster.Log, state *cluster.State, reports map[uint64]report) []uint64 {
	var most logReport
	for _, r := range reports {
		at := r.Logs[l.ID]
		if len(at.Voters) > 0 && (at.Term > most.Term || at.Term == most.Term && at.End >= most.End) {
			most = at
		}
	}
	switch {
	case len(most.Voters) > 0:
		return most.Voters
	case l.ID == cluster.CatalogID:
		voters, _ := cluster.CatalogMembers(state)
		return voters
	}
	return l.Voters()
}

// transferTime bounds a change of leadership.
const transferTime = 10 * time.Second

// ownStatus reports on this node and the logs that it holds.
func (st *statuses) ownStatus() report {
	free, total := st.space.known()
	r := report{Version: st.options.Version, Levels: st.options.Levels, BytesFree: free, BytesTotal: total, MemoryUsed: st.memory.Used(), MemoryTotal: st.memory.Size(), Logs: map[uint64]logReport{}}
	hosts := st.logs.all()
	st.lookAtFollowers(hosts)
	for _, h := range hosts {
		r.Logs[h.id] = h.report()
	}
	return r
}

// ClusterStatus asks every node and returns what they know.
func (st *statuses) ClusterStatus(ctx context.Context, _ Caller) (ClusterStatus, error) {
	c := st.catalog.Load()
	if c == nil {
		return ClusterStatus{}, st.self.notMember()
	}
	state := c.shown.Load()
	reports := askAll(ctx, st.caller, state)
	out := ClusterStatus{ClusterID: st.self.ClusterID(), Level: state.FeatureLevel()}
	for _, node := range state.Members() {
		r, alive := reports[node.ID]
		var levels cluster.Levels
		if alive {
			levels = r.Levels.Known()
		}
		out.Nodes = append(out.Nodes, NodeStatus{
			ID: node.ID, Name: node.Name, Address: node.Address, Alive: alive, OldestLevel: levels.Min, NewestLevel: levels.Max,
			Version: r.Version, BytesFree: r.BytesFree, BytesTotal: r.BytesTotal, MemoryUsed: r.MemoryUsed, MemoryTotal: r.MemoryTotal,
		})
	}
	out.Logs = append(out.Logs, st.logStatus(st.catalogAsLog(state), state, reports))
	for _, name := range slices.Sorted(maps.Keys(state.Logs)) {
		out.Logs = append(out.Logs, st.logStatus(state.Logs[name], state, reports))
	}
	return out, nil
}

// askAll asks all nodes how they are. Those that do not answer are missing.
func askAll(ctx context.Context, c *caller, state *cluster.State) map[uint64]report {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	reports := map[uint64]report{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id := range state.Nodes {
		asking.Go(func() {
			var r report
			if err := c.call(ctx, id, askStatus, struct{}{}, &r); err != nil {
				c.logger.Debug("a node does not answer", "node", id, "error", err)
				return
			}
			mu.Lock()
			reports[id] = r
			mu.Unlock()
		})
	}
	asking.Wait()
	return reports
}

// catalogAsLog describes the catalog as it describes logs.
func (st *statuses) catalogAsLog(state *cluster.State) cluster.Log {
	return cluster.Log{ID: cluster.CatalogID, Name: cluster.CatalogName, Placement: state.Catalog()}
}

func (st *statuses) logStatus(l cluster.Log, state *cluster.State, reports map[uint64]report) LogStatus {
	out := LogStatus{Name: l.Name, ID: l.ID}
	// Of two that think they lead, the one with the higher term does.
	var leader logReport
	for id, r := range reports {
		if at := r.Logs[l.ID]; at.Leading && (out.Leader == "" || at.Term > leader.Term) {
			leader, out.Leader = at, state.Nodes[id].Name
		}
	}
	if out.Leader == "" {
		leader.Voters = votersWithoutLeader(l, state, reports)
	}
	out.Term, out.Start, out.End = leader.Term, leader.Start, leader.End
	out.Healthy = out.Leader != "" && l.Settled()
	for i, r := range slices.Concat(l.Replicas, l.Leaving) {
		s := st.replicaStatus(l, r, leader, out.Leader, state, reports)
		if i >= len(l.Replicas) {
			s.Role = Leaving
			out.Healthy = false
		}
		voter := s.Role == Voter || l.ID == cluster.CatalogID && !state.Nodes[r.Node].Votes
		if !voter || s.Problem != "" || s.State != Leads && s.State != Replicating {
			out.Healthy = false
		}
		out.Replicas = append(out.Replicas, s)
	}
	slices.SortFunc(out.Replicas, func(a, b ReplicaStatus) int { return cmp.Compare(a.Replica, b.Replica) })
	if l.ID != cluster.CatalogID {
		for range cluster.WantedReplicas(state, &l) - len(l.Replicas) {
			out.Replicas = append(out.Replicas, ReplicaStatus{
				Role: Missing, State: Unknown, Problem: "there is no node for it yet: it comes with the next one",
			})
			out.Healthy = false
		}
	}
	return out
}

// replicaStatus is what the leader knows of a replica, and its node. A log without
// one has a report of which only the voters are known.
func (st *statuses) replicaStatus(l cluster.Log, r cluster.Replica, leader logReport, leaderName string, state *cluster.State, reports map[uint64]report) ReplicaStatus {
	node := state.Nodes[r.Node].Name
	s := ReplicaStatus{Replica: r.ID, Node: node, Role: Learner, State: Unknown}
	own, answers := reports[r.Node]
	at, holds := own.Logs[l.ID]
	s.Problem = at.Problem
	switch {
	case !answers:
		s.Problem = "the node does not answer"
		s.State = Unreachable
	case !holds:
		s.Problem = "the node does not hold it yet"
	}
	switch {
	case at.Repairing:
		s.State = Repairing
	case at.Lost:
		s.State = Lost
	}
	s.End = at.End
	if slices.Contains(leader.Voters, r.ID) {
		s.Role = Voter
	}
	for _, p := range leader.Peers {
		if p.Replica != r.ID {
			continue
		}
		s.End = p.End
		switch {
		case at.Repairing, at.Lost:
		case node == leaderName:
			s.State, s.End = Leads, leader.End
		case !p.Active || !answers:
			s.State = Unreachable
		case p.State == "StateReplicate":
			s.State = Replicating
		case p.State == "StateSnapshot":
			s.State = Snapshot
		default:
			s.State = Probing
		}
	}
	s.Lag = max(0, int64(leader.End-s.End))
	return s
}

// lookAtFollowers asks the logs that are led here how their replicas are, all of
// them at the same time.
func (st *statuses) lookAtFollowers(hosts map[string]*hosted) {
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

// followers of a log that is led here, as of the last look.
func (st *statuses) followers(h *hosted) followers {
	f := followers{byNode: map[string]int64{}}
	peers := h.peers.Load()
	if peers == nil {
		return f
	}
	own := h.replicaID
	state := st.catalog.Load().shown.Load()
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
		f.byNode[state.Nodes[st.router.nodeOf(h, p.Replica)].Name] = lag
	}
	wanted := len(h.replica.Status().Voters)
	if l, ok := state.Logs[h.name]; ok && l.ID == h.id {
		wanted = max(len(l.Replicas), l.Config.Replicas)
	}
	f.missing = max(0, wanted-well)
	return f
}
