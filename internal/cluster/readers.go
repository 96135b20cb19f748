package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// A read replica is a learner for ever: it counts for no majority and never votes. Its place
// is decided after those of the voters, which may have any node that it is on.

// ReadReplicas are read replicas on nodes with one label.
type ReadReplicas struct {
	Label   Label           `json:"label"`
	Count   int             `json:"count"`
	Unknown unknown.Members `json:"-"`
}

func (r ReadReplicas) String() string { return fmt.Sprintf("%s:%d", r.Label, r.Count) }

// MaxReadReplicas is how many a log has at the most: its leader sends each of them everything.
const MaxReadReplicas = 16

func checkReaders(readers []ReadReplicas) *record.Refusal {
	total := 0
	for i, r := range readers {
		if refusal := checkList([]Label{r.Label}); refusal != nil {
			return refusal
		}
		if r.Count < 1 || r.Count > MaxReadReplicas {
			return record.Refuse(record.Invalid, "%d read replicas of %s asked for: between 1 and %d", r.Count, r.Label, MaxReadReplicas)
		}
		if slices.ContainsFunc(readers[:i], func(other ReadReplicas) bool { return other.Label == r.Label }) {
			return record.Refuse(record.Invalid, "read replicas of %s are given twice", r.Label)
		}
		total += r.Count
	}
	if total > MaxReadReplicas {
		return record.Refuse(record.TooLarge, "%d read replicas asked for, the most is %d", total, MaxReadReplicas)
	}
	return nil
}

func (p *placer) wantedReaders() []ReadReplicas {
	if p.rule == nil {
		return nil
	}
	return p.rule.Readers
}

// readers compares read replicas on nodes with what the rule wants beside voters: missing has
// the label of each that lacks, and surplus are nodes that none is wanted on. A node counts for
// one label. Where there are too many, the first nodes keep theirs.
func (p *placer) readers(on, voters []uint64) (missing []Label, surplus []uint64) {
	if len(p.wantedReaders()) == 0 {
		return nil, on
	}
	surplus = p.byUses(on, voters)
	for _, want := range p.rule.Readers {
		left := want.Count
		surplus = slices.DeleteFunc(surplus, func(id uint64) bool {
			if left == 0 || !p.mayServe(id, want.Label, voters) {
				return false
			}
			left--
			return true
		})
		for range left {
			missing = append(missing, want.Label)
		}
	}
	return missing, surplus
}

// byUses sorts nodes by how many of the wanted labels they count for: those that count for few
// come first, so that others are left for the rest.
func (p *placer) byUses(nodes, voters []uint64) []uint64 {
	uses := func(id uint64) (labels int) {
		for _, want := range p.wantedReaders() {
			if p.mayServe(id, want.Label, voters) {
				labels++
			}
		}
		return labels
	}
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b uint64) int { return cmp.Compare(uses(a), uses(b)) })
	return nodes
}

// mayServe reports whether a read replica that is wanted on nodes with a label may be on a node.
func (p *placer) mayServe(id uint64, label Label, voters []uint64) bool {
	n := p.state.Nodes[id]
	return !n.Leaving && slices.Contains(n.Labels, label) && !slices.Contains(voters, id)
}

// shortage has the label of each read replica that no node could hold, whether it is up or not,
// if the voters are on some nodes.
func (p *placer) shortage(voters []uint64) []Label {
	if len(p.wantedReaders()) == 0 {
		return nil
	}
	var members []uint64
	for _, n := range p.state.Members() {
		members = append(members, n.ID)
	}
	missing, _ := p.readers(members, voters)
	return missing
}

// chooseReaders adds nodes for what is missing of a log's read replicas, the first of the
// candidates that may hold one.
func (p *placer) chooseReaders(on, voters, candidates []uint64) (added []uint64) {
	missing, _ := p.readers(on, voters)
	if len(missing) == 0 {
		return nil
	}
	candidates = p.byUses(candidates, voters)
	for _, label := range missing {
		at := slices.IndexFunc(candidates, func(id uint64) bool {
			return p.mayServe(id, label, voters) && !slices.Contains(on, id) && !slices.Contains(added, id)
		})
		if at >= 0 {
			added = append(added, candidates[at])
		}
	}
	return added
}

// unmetReaders is what the rule demands of read replicas and those on some nodes do not keep.
func (p *placer) unmetReaders(on, voters []uint64) (unmet []string) {
	missing, _ := p.readers(on, voters)
	short := p.shortage(voters)
	for _, want := range p.wantedReaders() {
		lacking := slices.DeleteFunc(slices.Clone(missing), func(l Label) bool { return l != want.Label })
		if len(lacking) == 0 {
			continue
		}
		text := fmt.Sprintf("%s has %d of %d read replicas", want.Label, want.Count-len(lacking), want.Count)
		if slices.Contains(short, want.Label) {
			text += ": too few nodes with that label hold no voter of the log"
		}
		unmet = append(unmet, text)
	}
	return unmet
}

// readersDue is what brings the read replicas of a log, whose voters are as they should be, one
// step closer to its rule: one moves away from a node that is lost or drained, if another node
// may have it; one goes that is not wanted where it is; one comes that is missing.
func readersDue(s *State, l *Log, load map[uint64]int, v View) (a Action, ok bool) {
	p, on, voters := newPlacer(s, l), nodesOf(l.Readers), nodesOf(l.Replicas)
	if len(on) == 0 && len(p.wantedReaders()) == 0 {
		return a, false
	}
	// Those that go first, if there are too many, are those that serve nobody.
	slices.SortStableFunc(on, func(a, b uint64) int { return cmp.Compare(reluctance(s, a, v), reluctance(s, b, v)) })
	able := slices.DeleteFunc(byLoad(s, l, load, v), func(id uint64) bool { return s.Nodes[id].Drained })
	for _, id := range on {
		if reluctance(s, id, v) == 0 {
			continue
		}
		if to := p.chooseReaders(without(on, id), voters, able); len(to) > 0 {
			return Action{Kind: MoveReplica, Log: l.Name, Node: id, To: to[0]}, true
		}
	}
	if _, surplus := p.readers(on, voters); len(surplus) > 0 {
		return Action{Kind: RemoveReplica, Log: l.Name, Node: surplus[len(surplus)-1]}, true
	}
	if to := p.chooseReaders(on, voters, able); len(to) > 0 {
		return Action{Kind: AddReader, Log: l.Name, To: to[0]}, true
	}
	return a, false
}

// reluctance is higher for a node that should rather not hold a read replica; 0: it is as good
// as any.
func reluctance(s *State, id uint64, v View) int {
	n := s.Nodes[id]
	switch {
	case n.Leaving, v.Lost(id):
		return 2
	case n.Drained:
		return 1
	}
	return 0
}

// readerInTheWay is a node whose read replica of a log keeps a voter away from it that has no
// other place; 0: there is none.
func readerInTheWay(s *State, l *Log, choose func(without *Log) (to uint64)) uint64 {
	if len(l.Readers) == 0 {
		return 0
	}
	other := *l
	other.Readers = nil
	to := choose(&other)
	if !slices.Contains(nodesOf(l.Readers), to) {
		return 0
	}
	return to
}
