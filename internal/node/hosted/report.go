package hosted

import (
	"cmp"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// LogReport describes a log on one of its nodes.
type LogReport struct {
	Leading    bool          `json:"leading"`
	Term       uint64        `json:"term"`
	Start, End record.Offset `json:",omitempty"`
	Used       int64         `json:"used,omitempty"` // bytes on its disk
	Voters     []uint64      `json:"voters"`
	Learners   []uint64      `json:"learners"`
	Outgoing   []uint64      `json:"outgoing,omitempty"` // the voters of before, while they are needed too
	Peers      []core.Peer   `json:"peers,omitempty"`    // of a leader
	Problem    string        `json:"problem,omitempty"`
	// Repairing means that its damaged files are being repaired; Lost, that another replica
	// replaces it on this node.
	Repairing bool `json:"repairing,omitempty"`
	Lost      bool `json:"lost,omitempty"`
}

func (h *Log) Report() LogReport {
	if problem := h.Problem(); problem != nil {
		return LogReport{Problem: problem.Detail, Repairing: h.Rebuilding != nil, Lost: h.Forgot}
	}
	s := h.Replica.Status()
	l := LogReport{Leading: s.Leading, Term: s.Term, Voters: s.Voters, Learners: s.Learners, Outgoing: s.Outgoing}
	l.Problem = cmp.Or(h.Stalled(), h.Repairs.problem()) // it serves all the same
	l.Start, l.End, _ = h.Replica.Tail().Bounds()
	l.Used = h.Store.Bytes()
	if !s.Leading {
		return l
	}
	if peers := h.Peers.Load(); peers != nil {
		l.Peers = *peers
	}
	return l
}

// States of a log on this node, as its metrics name them.
const (
	StateLeading    = "leading"
	StateFollowing  = "following"
	StateLeaderless = "leaderless"
	StateFailed     = "failed"
	StateRepairing  = "repairing"
)

func (h *Log) State() string {
	switch {
	case h.Rebuilding != nil:
		return StateRepairing
	case h.Problem() != nil:
		return StateFailed
	}
	switch s := h.Replica.Status(); {
	case s.Leading:
		return StateLeading
	case s.Leader == 0:
		return StateLeaderless
	}
	return StateFollowing
}

// Newer reports whether one report is newer than another: the leader's is, then the one with the
// later term, then the one with the higher end.
func (l *LogReport) Newer(o *LogReport) bool {
	switch {
	case l.Term != o.Term:
		return l.Term > o.Term
	case l.Leading != o.Leading:
		return l.Leading
	}
	return l.End > o.End
}
