package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
)

// Drain marks a node as drained, so that it leads nothing, or removes the mark if undo is set.
// The change is empty if that is the case already.
func Drain(s *State, name string, undo bool) (Change, *record.Refusal) {
	n, member := s.Named(name)
	if !member {
		return Change{}, s.NoNode(name)
	}
	if n.Drained == !undo {
		return Change{}, nil
	}
	n.Drained = !undo
	return Change{Node: []Node{n}}, nil
}

// Heirs returns the voters of a log to which a drained node may hand over the leadership, the
// best first: none on a drained node, and those at home before others. The order differs from log
// to log.
func Heirs(s *State, l *Log, voters []uint64) (heirs []uint64) {
	for _, voter := range voters {
		if n := s.Nodes[l.NodeOf(voter)]; n.ID != 0 && !n.Drained && !n.Leaving {
			heirs = append(heirs, voter)
		}
	}
	slices.Sort(heirs)
	if len(heirs) > 0 {
		first := int(l.ID % uint64(len(heirs)))
		heirs = slices.Concat(heirs[first:], heirs[:first])
	}
	p := newPlacer(s, l)
	slices.SortStableFunc(heirs, func(a, b uint64) int { return cmp.Compare(p.homeRank(l.NodeOf(a)), p.homeRank(l.NodeOf(b))) })
	return heirs
}

// LogVoters is the current voters of a log, for Waits.
type LogVoters struct {
	Log    string
	Leader uint64   // node; 0: not known
	Voters []uint64 // nodes
	// Outgoing are the nodes of the outgoing voters, while a joint configuration needs a majority of
	// these, too.
	Outgoing []uint64
	// Current are the nodes of the voters that answer and keep up with the leader.
	Current []uint64
}

// MaxWaits bounds the reasons that Waits returns, since they are shown to operators and are part
// of an answer that must fit into a message.
const MaxWaits = 1000

// Waits returns the reasons why a node must not be stopped yet, at most MaxWaits of them: the
// logs that it leads, and the logs that would be left without a majority. It returns none if the
// node may be stopped.
func Waits(node uint64, logs []LogVoters) (why []string) {
	for _, l := range logs {
		if len(why) >= MaxWaits {
			return why[:MaxWaits]
		}
		votes := slices.Contains(l.Voters, node)
		if len(l.Outgoing) > 0 && (votes || slices.Contains(l.Outgoing, node)) {
			why = append(why, fmt.Sprintf("the voters of log %s are being changed", l.Log))
		}
		if !votes {
			continue
		}
		if len(l.Voters) == 1 {
			why = append(why, fmt.Sprintf("log %s is on this node alone", l.Log))
			continue
		}
		if l.Leader == node {
			why = append(why, fmt.Sprintf("it leads log %s", l.Log))
		}
		left := len(slices.DeleteFunc(slices.Clone(l.Current), func(n uint64) bool { return n == node }))
		if needed := len(l.Voters)/2 + 1; left < needed {
			why = append(why, fmt.Sprintf("log %s would have %d of the %d voters that it needs", l.Log, left, needed))
		}
	}
	return why[:min(len(why), MaxWaits)]
}
