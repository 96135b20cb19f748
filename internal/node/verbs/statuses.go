package verbs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/core"
)

// Statuses reports the state of this node and its cluster.
type Statuses struct {
	options *settings.Options
	logger  *slog.Logger
	catalog *catalog.Shared
	logs    *hosted.Logs
	self    *peers.Self
	caller  *peers.Caller
	router  *peers.Router
	space   *peers.Space
	memory  *budget.Memory
}

// NewStatuses returns the verbs that describe the cluster.
func NewStatuses(
	options *settings.Options, logger *slog.Logger, memory *budget.Memory, catalog *catalog.Shared, logs *hosted.Logs, self *peers.Self,
	caller *peers.Caller, router *peers.Router, space *peers.Space,
) *Statuses {
	return &Statuses{
		options: options, logger: logger, memory: memory, catalog: catalog, logs: logs, self: self, caller: caller, router: router, space: space,
	}
}

// StatusTime is the longest time that a node may take to report; then it counts as not answering.
const StatusTime = 1500 * time.Millisecond

// report is a node's report about itself.
type report struct {
	Version     string                      `json:"version"`
	HTTP        string                      `json:"http,omitempty"` // the address that its HTTP port listens at
	Levels      cluster.Levels              `json:"levels,omitzero"`
	BytesFree   int64                       `json:"bytes_free"`
	BytesTotal  int64                       `json:"bytes_total"`
	MemoryUsed  int64                       `json:"memory_used"`
	MemoryTotal int64                       `json:"memory_total"`
	Full        string                      `json:"full,omitempty"` // the reason why the disk accepts no records; empty: it does
	Logs        map[uint64]hosted.LogReport `json:"logs"`           // that it holds, by id
}

// votersWithoutLeader returns the voters of a log without a leader: as known to the replica with
// most of the log or, if no replica answers, to the catalog.
func votersWithoutLeader(l cluster.Log, state *cluster.State, reports map[uint64]report) (voters, outgoing []uint64) {
	var most hosted.LogReport
	for _, r := range reports {
		at := r.Logs[l.ID]
		if len(at.Voters) > 0 && (at.Term > most.Term || at.Term == most.Term && at.End >= most.End) {
			most = at
		}
	}
	switch {
	case len(most.Voters) > 0:
		return most.Voters, most.Outgoing
	case l.ID == cluster.CatalogID:
		voters, _ := cluster.CatalogMembers(state)
		return voters, nil
	}
	return l.Voters(), nil
}

// transferTime bounds a change of leadership.
const transferTime = 10 * time.Second

// OwnStatus reports on this node and the logs that it holds.
func (st *Statuses) OwnStatus() report {
	free, total := st.space.Known()
	r := report{Version: st.options.Version, HTTP: st.options.HTTPAddress, Levels: st.options.Levels, BytesFree: free, BytesTotal: total, MemoryUsed: st.memory.Used(), MemoryTotal: st.memory.Size(), Full: st.space.Problem(), Logs: map[uint64]hosted.LogReport{}}
	hosts := st.logs.All()
	st.LookAtFollowers(hosts)
	for _, h := range hosts {
		r.Logs[h.ID] = h.Report()
	}
	return r
}

// ClusterStatus asks every node and returns their combined reports.
func (st *Statuses) ClusterStatus(ctx context.Context, _ Caller) (ClusterStatus, error) {
	c := st.catalog.Load()
	if c == nil {
		return ClusterStatus{}, st.self.NotMember()
	}
	state := c.Shown.Load()
	reports := AskAll(ctx, st.caller, state)
	out := ClusterStatus{ClusterID: st.self.ClusterID(), Level: state.FeatureLevel(), Rules: state.Rules}
	for _, node := range state.Members() {
		r, alive := reports[node.ID]
		var levels cluster.Levels
		if alive {
			levels = r.Levels.Known()
		}
		out.Nodes = append(out.Nodes, NodeStatus{
			ID: node.ID, Name: node.Name, Address: node.Address, Alive: alive, OldestLevel: levels.Min, NewestLevel: levels.Max,
			Version: r.Version, HTTP: r.HTTP, BytesFree: r.BytesFree, BytesTotal: r.BytesTotal, MemoryUsed: r.MemoryUsed, MemoryTotal: r.MemoryTotal,
			Labels: node.Labels, Drained: node.Drained,
		})
	}
	out.Logs = append(out.Logs, st.logStatus(st.catalogAsLog(state), state, reports))
	for _, name := range slices.Sorted(maps.Keys(state.Logs)) {
		out.Logs = append(out.Logs, st.logStatus(state.Logs[name], state, reports))
	}
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.Drained {
			n.Waits = cluster.Waits(n.ID, logVoters(state, out.Logs))
		}
	}
	return out, nil
}

// logVoters are what Waits needs to know of logs.
func logVoters(state *cluster.State, logs []LogStatus) (all []cluster.LogVoters) {
	ids := map[string]uint64{}
	for id, node := range state.Nodes {
		ids[node.Name] = id
	}
	for _, l := range logs {
		one := cluster.LogVoters{Log: l.Name, Leader: ids[l.Leader]}
		for _, r := range l.Replicas {
			if r.Outgoing {
				one.Outgoing = append(one.Outgoing, ids[r.Node])
			}
			if r.Role == Voter || r.Role == Leaving {
				one.Voters = append(one.Voters, ids[r.Node])
				if r.State == Leads || r.State == Replicating {
					one.Current = append(one.Current, ids[r.Node])
				}
			}
		}
		all = append(all, one)
	}
	return all
}

// AskAll returns the reports of all nodes. Nodes that do not answer are missing.
func AskAll(ctx context.Context, c *peers.Caller, state *cluster.State) map[uint64]report {
	ctx, cancel := context.WithTimeout(ctx, StatusTime)
	defer cancel()
	reports := map[uint64]report{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id := range state.Nodes {
		asking.Go(func() {
			var r report
			if err := c.Call(ctx, id, peers.AskStatus, struct{}{}, &r); err != nil {
				c.Logger.Debug("a node does not answer", "node", id, "error", err)
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
func (st *Statuses) catalogAsLog(state *cluster.State) cluster.Log {
	return cluster.Log{ID: cluster.CatalogID, Name: cluster.CatalogName, Placement: state.Catalog()}
}

func (st *Statuses) logStatus(l cluster.Log, state *cluster.State, reports map[uint64]report) LogStatus {
	out := LogStatus{Name: l.Name, ID: l.ID, Creator: l.Creator}
	// Of two that think they lead, the one with the higher term does.
	var leader hosted.LogReport
	for id, r := range reports {
		if at := r.Logs[l.ID]; at.Leading && (out.Leader == "" || at.Term > leader.Term) {
			leader, out.Leader = at, state.Nodes[id].Name
		}
	}
	if out.Leader == "" {
		leader.Voters, leader.Outgoing = votersWithoutLeader(l, state, reports)
	}
	out.Term, out.Start, out.End = leader.Term, leader.Start, leader.End
	out.Healthy = out.Leader != "" && l.Settled() && len(leader.Outgoing) == 0
	for i, r := range l.All() {
		s := st.replicaStatus(l, r, leader, out.Leader, state, reports)
		leaving := i >= len(l.Replicas)+len(l.Readers)
		if r.Reader {
			if s.Role = ReadReplica; leaving {
				s.Problem = cmp.Or(s.Problem, "it is on its way out")
			}
			out.Replicas = append(out.Replicas, s)
			continue
		}
		if leaving {
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
		missing := "no node is available for it yet"
		if out.Rule = state.RuleOf(&l); !out.Rule.Empty() {
			missing = "no node that its rule allows is available for it yet"
			out.Unmet = cluster.Unmet(state, &l)
			out.Healthy = out.Healthy && len(out.Unmet) == 0
		}
		for range cluster.WantedReplicas(state, &l) - len(l.Replicas) {
			out.Replicas = append(out.Replicas, ReplicaStatus{
				Role: Missing, State: Unknown, Problem: missing,
			})
			out.Healthy = false
		}
	}
	return out
}

// replicaStatus returns the leader's state of a replica, and its node. The report of a log without
// a leader has only the voters.
func (st *Statuses) replicaStatus(l cluster.Log, r cluster.Replica, leader hosted.LogReport, leaderName string, state *cluster.State, reports map[uint64]report) ReplicaStatus {
	member, inside := state.Nodes[r.Node]
	// A log of which no replica survived a recovery keeps its places, on nodes that are gone.
	node := cmp.Or(member.Name, state.Gone[r.Node], fmt.Sprintf("node %d", r.Node))
	s := ReplicaStatus{Replica: r.ID, Node: node, Role: Learner, State: Unknown}
	own, answers := reports[r.Node]
	at, holds := own.Logs[l.ID]
	s.Problem = at.Problem
	if l.ID != cluster.CatalogID && settings.DecodeConfig(l.Config).Durability == settings.Disk {
		s.Problem = cmp.Or(s.Problem, own.Full)
	}
	switch {
	case !inside:
		s.Problem = "the node has left the cluster"
		s.State = Unreachable
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
	if s.Outgoing = slices.Contains(leader.Outgoing, r.ID); s.Outgoing {
		s.Problem = cmp.Or(s.Problem, "it is needed until the change of voters has committed")
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
	if s.State != Unreachable {
		s.Lag = max(0, int64(leader.End-s.End))
	}
	return s
}

// LookAtFollowers updates the state of the replicas of all logs led by this node, concurrently.
func (st *Statuses) LookAtFollowers(hosts map[string]*hosted.Log) {
	var asked sync.WaitGroup
	for _, h := range hosts {
		if h.Replica == nil || !h.Replica.Status().Leading {
			continue
		}
		asked.Add(1)
		look := func(peers []core.Peer) {
			h.Peers.Store(&peers)
			asked.Done()
		}
		if h.Replica.Peers(look) != nil {
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

// Followers returns the state of the replicas of a log led by this node, as of the last
// LookAtFollowers.
func (st *Statuses) Followers(h *hosted.Log) Followers {
	f := Followers{ByNode: map[string]int64{}, Readers: map[string]int64{}}
	peers := h.Peers.Load()
	if peers == nil {
		return f
	}
	own := h.ReplicaID
	state := st.catalog.Load().Shown.Load()
	_, end, _ := h.Replica.Tail().Bounds()
	l, placed := state.Logs[h.Name]
	placed = placed && l.ID == h.ID
	well := 0
	for _, p := range *peers {
		if p.Replica == own {
			well++
			continue
		}
		if p.Active && !p.Learner && p.State == "StateReplicate" {
			well++
		}
		if !p.Active && p.Match == 0 {
			continue // it has not answered this leader yet: how far it is, is not known
		}
		lag := max(0, int64(end-p.End))
		if isReader := func(r cluster.Replica) bool { return r.ID == p.Replica }; placed && slices.ContainsFunc(l.Readers, isReader) {
			f.Readers[state.Nodes[st.router.NodeOf(h, p.Replica)].Name] = lag
			continue
		}
		f.Lag = max(f.Lag, lag)
		f.ByNode[state.Nodes[st.router.NodeOf(h, p.Replica)].Name] = lag
	}
	wanted := len(h.Replica.Status().Voters)
	if placed {
		wanted = max(len(l.Replicas), l.Config.Replicas)
	}
	f.Missing = max(0, wanted-well)
	return f
}

// peersTime bounds how long a check of followers waits for the logs' loops. A log that has not
// answered by then keeps its previous state.
const peersTime = 500 * time.Millisecond

// Followers is the state of the replicas of a log, according to its leader.
type Followers struct {
	Missing int   // replicas that do not vote or do not keep up
	Lag     int64 // of the one that is farthest behind, read replicas left out
	// ByNode is the lag of each follower, and Readers the lag of each read replica, in records.
	ByNode, Readers map[string]int64
}
