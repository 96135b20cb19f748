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
// the label of each that lacks, and surplus are nodes that none is wanted on. Where there are
// too many, the first nodes keep theirs.
func (p *placer) readers(on, voters []uint64) (missing []Label, surplus []uint64) {
	m := newReaderMatch(p, voters)
	for _, id := range on {
		if !m.admit(id) {
			surplus = append(surplus, id)
		}
	}
	return m.missing(), surplus
}

// readerMatch assigns nodes to the read replicas that are wanted, a node to one of its labels.
// As many have a node as can have one: an augmenting path moves nodes that are in it to other
// labels to let one more in, and none is ever put out (Kuhn 1955; nodes that were let in first
// stay, so the order of admission is one of preference).
type readerMatch struct {
	*placer
	voters  []uint64
	holders [][]uint64 // by place in the rule's list, at most as many as are wanted
}

func newReaderMatch(p *placer, voters []uint64) readerMatch {
	return readerMatch{p, voters, make([][]uint64, len(p.wantedReaders()))}
}

// admit lets a node in if there is room for it.
func (m readerMatch) admit(id uint64) bool {
	tried := uint32(0)
	return m.assign(id, &tried)
}

// assign gives the node a place of a label that was not tried, a bit for each.
func (m readerMatch) assign(id uint64, tried *uint32) bool {
	for i, want := range m.wantedReaders() {
		if *tried&(1<<i) != 0 || !m.mayServe(id, want.Label, m.voters) {
			continue
		}
		*tried |= 1 << i
		if len(m.holders[i]) < want.Count {
			m.holders[i] = append(m.holders[i], id)
			return true
		}
		for at, holder := range m.holders[i] {
			if m.assign(holder, tried) {
				m.holders[i][at] = id
				return true
			}
		}
	}
	return false
}

func (m readerMatch) missing() (missing []Label) {
	for i, want := range m.wantedReaders() {
		for range want.Count - len(m.holders[i]) {
			missing = append(missing, want.Label)
		}
	}
	return missing
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
// candidates that leave room for those on other nodes.
func (p *placer) chooseReaders(on, voters, candidates []uint64) (added []uint64) {
	m := newReaderMatch(p, voters)
	for _, id := range on {
		m.admit(id)
	}
	if len(m.missing()) == 0 {
		return nil
	}
	for _, id := range candidates {
		if !slices.Contains(on, id) && m.admit(id) {
			added = append(added, id)
		}
	}
	return added
}

// unmetReaders is what the rule demands of read replicas and those on some nodes do not keep.
func (p *placer) unmetReaders(on, voters []uint64) (unmet []string) {
	if len(p.wantedReaders()) == 0 {
		return nil
	}
	m := newReaderMatch(p, voters)
	for _, id := range on {
		m.admit(id)
	}
	missing := m.missing()
	for _, n := range p.state.Members() { // of what is missing, this leaves what no node could hold
		if !slices.Contains(on, n.ID) {
			m.admit(n.ID)
		}
	}
	short := m.missing()
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
// step closer to its rule: one goes that is not wanted where it is; one comes that is missing;
// one moves away from a node that is lost or drained, if another node may have it.
func readersDue(s *State, l *Log, load map[uint64]int, v View) (a Action, ok bool) {
	p, on, voters := newPlacer(s, l), nodesOf(l.Readers), nodesOf(l.Replicas)
	if len(on) == 0 && len(p.wantedReaders()) == 0 {
		return a, false
	}
	// Those that go first, if there are too many, are those that serve nobody.
	slices.SortStableFunc(on, func(a, b uint64) int { return cmp.Compare(reluctance(s, a, v), reluctance(s, b, v)) })
	able := slices.DeleteFunc(byLoad(s, l, load, v), func(id uint64) bool { return s.Nodes[id].Drained })
	if _, surplus := p.readers(on, voters); len(surplus) > 0 {
		return Action{Kind: RemoveReplica, Log: l.Name, Node: surplus[len(surplus)-1]}, true
	}
	if to := p.chooseReaders(on, voters, able); len(to) > 0 {
		return Action{Kind: AddReader, Log: l.Name, To: to[0]}, true
	}
	// Nothing that is missing can be added now, so that who comes for one takes its place.
	for _, id := range on {
		if reluctance(s, id, v) == 0 {
			continue
		}
		if to := p.chooseReaders(without(on, id), voters, able); len(to) > 0 {
			return Action{Kind: MoveReplica, Log: l.Name, Node: id, To: to[0]}, true
		}
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
