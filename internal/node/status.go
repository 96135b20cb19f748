package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// statusTime is how long a node may take to tell of itself before it counts as
// not answering.
const statusTime = 1500 * time.Millisecond

// report is what a node tells of itself.
type report struct {
	Version    string               `json:"version"`
	BytesFree  int64                `json:"bytes_free"`
	BytesTotal int64                `json:"bytes_total"`
	Logs       map[uint64]logReport `json:"logs"` // that it holds, by id
}

// logReport is what a node knows of a log that it holds.
type logReport struct {
	Leading    bool          `json:"leading"`
	Term       uint64        `json:"term"`
	Start, End record.Offset `json:",omitempty"`
	Used       int64         `json:"used,omitempty"` // bytes on its disk
	Voters     []uint64      `json:"voters"`
	Learners   []uint64      `json:"learners"`
	Peers      []core.Peer   `json:"peers,omitempty"` // of a leader
	Problem    string        `json:"problem,omitempty"`
	// Mending: its files are damaged and are being mended. Lost: it gets
	// another replica on this node.
	Mending bool `json:"mending,omitempty"`
	Lost    bool `json:"lost,omitempty"`
}

// ownStatus tells of this node and the logs that it holds.
func (n *Node) ownStatus() report {
	free, total := n.space.known()
	r := report{Version: n.options.Version, BytesFree: free, BytesTotal: total, Logs: map[uint64]logReport{}}
	hosts := *n.logs.Load()
	n.lookAtFollowers(hosts)
	for _, h := range hosts {
		r.Logs[h.id] = h.report()
	}
	return r
}

func (h *hosted) report() logReport {
	if problem := h.problem(); problem != nil {
		return logReport{Problem: problem.Detail, Mending: h.mending != nil, Lost: h.forgot}
	}
	s := h.replica.Status()
	l := logReport{Leading: s.Leading, Term: s.Term, Voters: s.Voters, Learners: s.Learners}
	l.Problem = cmp.Or(h.stalled(), h.repairs.problem()) // it serves all the same
	l.Start, l.End, _ = h.replica.Tail().Bounds()
	l.Used = h.log.Bytes()
	if !s.Leading {
		return l
	}
	if peers := h.peers.Load(); peers != nil {
		l.Peers = *peers
	}
	return l
}

// ClusterStatus asks every node and tells what they know.
func (n *Node) ClusterStatus(ctx context.Context, _ Caller) (ClusterStatus, error) {
	c := n.catalog.Load()
	if c == nil {
		return ClusterStatus{}, n.notMember()
	}
	state := c.shown.Load()
	reports := n.askAll(ctx, state)
	out := ClusterStatus{ClusterID: n.ClusterID()}
	for _, node := range state.Members() {
		r, alive := reports[node.ID]
		out.Nodes = append(out.Nodes, NodeStatus{
			ID: node.ID, Name: node.Name, Address: node.Address, Alive: alive,
			Version: r.Version, BytesFree: r.BytesFree, BytesTotal: r.BytesTotal,
		})
	}
	out.Logs = append(out.Logs, n.logStatus(n.catalogAsLog(state), state, reports))
	for _, name := range slices.Sorted(maps.Keys(state.Logs)) {
		out.Logs = append(out.Logs, n.logStatus(state.Logs[name], state, reports))
	}
	return out, nil
}

func (n *Node) askAll(ctx context.Context, state *catalogState) map[uint64]report {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	reports := map[uint64]report{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for id := range state.Nodes {
		asking.Go(func() {
			var r report
			if err := n.call(ctx, id, askStatus, struct{}{}, &r); err != nil {
				n.logger.Debug("a node does not tell of itself", "node", id, "error", err)
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
func (n *Node) catalogAsLog(state *catalogState) catalogLog {
	return catalogLog{ID: catalogID, Name: catalogName, Placement: state.Catalog()}
}

func (n *Node) logStatus(l catalogLog, state *catalogState, reports map[uint64]report) LogStatus {
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
		s := n.replicaStatus(l, r, leader, out.Leader, state, reports)
		if i >= len(l.Replicas) {
			s.Role = Leaving
			out.Healthy = false
		}
		voter := s.Role == Voter || l.ID == catalogID && !state.Nodes[r.Node].Votes
		if !voter || s.Problem != "" || s.State != Leads && s.State != Replicating {
			out.Healthy = false
		}
		out.Replicas = append(out.Replicas, s)
	}
	slices.SortFunc(out.Replicas, func(a, b ReplicaStatus) int { return cmp.Compare(a.Replica, b.Replica) })
	if l.ID != catalogID {
		for range state.WantedReplicas(&l) - len(l.Replicas) {
			out.Replicas = append(out.Replicas, ReplicaStatus{
				Role: Missing, State: Unknown, Problem: "there is no node for it yet: it comes with the next one",
			})
			out.Healthy = false
		}
	}
	return out
}

// votersWithoutLeader are the voters as whoever has most of the log knows them,
// or, if no replica answers, as the catalog does.
func votersWithoutLeader(l catalogLog, state *catalogState, reports map[uint64]report) []uint64 {
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
	case l.ID == catalogID:
		voters, _ := state.CatalogMembers()
		return voters
	}
	return l.Voters()
}

// replicaStatus is what the leader tells of a replica, and its node. A log without
// one has a report of which only the voters are known.
func (n *Node) replicaStatus(l catalogLog, r catalogReplica, leader logReport, leaderName string, state *catalogState, reports map[uint64]report) ReplicaStatus {
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
	case at.Mending:
		s.State = Mending
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
		case at.Mending, at.Lost:
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

// transferTime bounds a change of leadership.
const transferTime = 10 * time.Second

// transferRequest asks the leader of a log to let a node lead.
type transferRequest struct {
	Log  string `json:"log"`
	Node uint64 `json:"node"`
}

// TransferLeader hands the leadership of a log to the replica on a node, and
// returns when it leads.
func (n *Node) TransferLeader(ctx context.Context, _ Caller, log, to string) error {
	c := n.catalog.Load()
	if c == nil {
		return n.notMember()
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	state := c.shown.Load()
	if log != catalogName {
		var refusal *record.Refusal
		if state, refusal = c.missing.confirm(c, log); refusal != nil {
			return refusal
		}
	}
	target, ok := state.Named(to)
	if !ok {
		return state.NoNode(to)
	}
	l := state.Logs[log]
	if _, holds := l.On(target.ID); log != catalogName && !holds {
		return record.Refuse(record.NoNode, "node %q holds no replica of log %q", to, log)
	}
	leader := n.leaderNode(ctx, log)
	switch leader {
	case 0:
		return record.Refuse(record.NotLeader, "log %q has no leader at the moment", log)
	case target.ID:
		return nil
	}
	if err := n.call(ctx, leader, askTransfer, transferRequest{Log: log, Node: target.ID}, nil); err != nil {
		return err
	}
	for n.leaderNode(ctx, log) != target.ID {
		if pause(ctx, changePause); ctx.Err() != nil {
			return record.Refuse(record.Busy, "node %q does not lead log %q yet", to, log)
		}
	}
	return nil
}

// leaderNode finds the node that leads a log, or 0.
func (n *Node) leaderNode(ctx context.Context, log string) uint64 {
	if h := (*n.logs.Load())[log]; h != nil && h.replica != nil {
		s := h.replica.Status()
		if s.Leading {
			return n.me.Load().NodeID
		}
		return n.nodeOf(h, s.Leader)
	}
	state := n.catalog.Load().shown.Load()
	for id, r := range n.askAll(ctx, state) {
		if r.Logs[state.Logs[log].ID].Leading {
			return id
		}
	}
	return 0
}

// transferHere lets another replica lead a log that this node leads.
func (n *Node) transferHere(ctx context.Context, q transferRequest) error {
	h, refusal := n.serving(Caller{}, q.Log)
	if refusal != nil {
		return refusal
	}
	to := n.replicaOn(h, q.Node)
	if to == 0 {
		return record.Refuse(record.NoNode, "node %d holds no replica of log %q", q.Node, q.Log)
	}
	return h.replica.HandOver(ctx, to)
}
