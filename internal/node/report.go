package node

import (
	"cmp"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

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
	// Repairing: its files are damaged and are being repaired. Lost: it gets
	// another replica on this node.
	Repairing bool `json:"repairing,omitempty"`
	Lost      bool `json:"lost,omitempty"`
}

func (h *hosted) report() logReport {
	if problem := h.problem(); problem != nil {
		return logReport{Problem: problem.Detail, Repairing: h.rebuilding != nil, Lost: h.forgot}
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

// States of a log on this node, as its metrics name them.
const (
	stateLeading    = "leading"
	stateFollowing  = "following"
	stateLeaderless = "leaderless"
	stateFailed     = "failed"
	stateRepairing  = "repairing"
)

func (h *hosted) state() string {
	switch {
	case h.rebuilding != nil:
		return stateRepairing
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

// newer reports whether one node knows more of a log than another: who leads, then
// who has heard of the later term, then who has more.
func (l *logReport) newer(o *logReport) bool {
	switch {
	case l.Term != o.Term:
		return l.Term > o.Term
	case l.Leading != o.Leading:
		return l.Leading
	}
	return l.End > o.End
}
