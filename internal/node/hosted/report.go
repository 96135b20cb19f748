package hosted

import (
	"cmp"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// LogReport is what a node knows of a log that it holds.
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
	// Repairing: its files are damaged and are being repaired. Lost: it gets
	// another replica on this node.
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

// Newer reports whether one node knows more of a log than another: who leads, then
// who has heard of the later term, then who has more.
func (l *LogReport) Newer(o *LogReport) bool {
	switch {
	case l.Term != o.Term:
		return l.Term > o.Term
	case l.Leading != o.Leading:
		return l.Leading
	}
	return l.End > o.End
}
