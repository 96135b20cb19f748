package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// A read replica remains a learner: it counts for no majority and never votes. It is placed after
// the voters, which take precedence over it on every node.

// ReadReplicas is a number of read replicas on nodes with one label.
type ReadReplicas struct {
	Label   Label           `json:"label"`
	Count   int             `json:"count"`
	Unknown unknown.Members `json:"-"`
}

func (r ReadReplicas) String() string { return fmt.Sprintf("%s:%d", r.Label, r.Count) }

// MaxReadReplicas is the maximum number of read replicas of a log: its leader sends everything to
// each of them.
const MaxReadReplicas = 16

func checkReadReplicas(wanted []ReadReplicas) *record.Refusal {
	total := 0
	for i, r := range wanted {
		if refusal := checkList([]Label{r.Label}); refusal != nil {
			return refusal
		}
		if r.Count < 1 || r.Count > MaxReadReplicas {
			return record.Refuse(record.Invalid, "the number of read replicas of %s must be 1 to %d, not %d", r.Label, MaxReadReplicas, r.Count)
		}
		if slices.ContainsFunc(wanted[:i], func(other ReadReplicas) bool { return other.Label == r.Label }) {
			return record.Refuse(record.Invalid, "read replicas of %s are given twice", r.Label)
		}
		total += r.Count
	}
	if total > MaxReadReplicas {
		return record.Refuse(record.TooLarge, "%d read replicas requested, the limit is %d", total, MaxReadReplicas)
	}
	return nil
}

func (p *placer) wantedReadReplicas() []ReadReplicas {
	if p.rule == nil {
		return nil
	}
	return p.rule.Readers
}

// matchReadReplicas compares the nodes of the read replicas with the log's rule, given the nodes of the
// voters. missing has the label of each missing read replica, surplus the nodes where none is
// wanted. If there are too many, those on the first nodes of on are kept.
func (p *placer) matchReadReplicas(on, voters []uint64) (missing []Label, surplus []uint64) {
	m := newReadReplicaMatch(p, voters)
	for _, id := range on {
		if !m.admit(id) {
			surplus = append(surplus, id)
		}
	}
	return m.missing(), surplus
}

// readReplicaMatch assigns nodes to the wanted read replicas, each node to one of its labels. The
// assignment is maximal: an augmenting path moves assigned nodes to other labels to admit one
// more, and none is ever removed (Kuhn 1955). Nodes that were admitted first stay, so the order
// of admission is the order of preference.
type readReplicaMatch struct {
	*placer
	voters  []uint64
	holders [][]uint64 // by position in the rule's list, at most as many as wanted
}

func newReadReplicaMatch(p *placer, voters []uint64) readReplicaMatch {
	return readReplicaMatch{p, voters, make([][]uint64, len(p.wantedReadReplicas()))}
}

// admit assigns a node if there is a place for it.
func (m readReplicaMatch) admit(id uint64) bool {
	tried := uint32(0)
	return m.assign(id, &tried)
}

// assign assigns the node to a label that has not been tried; tried has a bit for each.
func (m readReplicaMatch) assign(id uint64, tried *uint32) bool {
	for i, want := range m.wantedReadReplicas() {
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

func (m readReplicaMatch) missing() (missing []Label) {
	for i, want := range m.wantedReadReplicas() {
		for range want.Count - len(m.holders[i]) {
			missing = append(missing, want.Label)
		}
	}
	return missing
}

// mayServe reports whether a read replica wanted on nodes with the label may be on the node id.
func (p *placer) mayServe(id uint64, label Label, voters []uint64) bool {
	n := p.state.Nodes[id]
	return !n.Leaving && slices.Contains(n.Labels, label) && !slices.Contains(voters, id)
}

// shortage returns the label of each read replica that no node could hold, up or down, given the
// nodes of the voters.
func (p *placer) shortage(voters []uint64) []Label {
	if len(p.wantedReadReplicas()) == 0 {
		return nil
	}
	var members []uint64
	for _, n := range p.state.Members() {
		members = append(members, n.ID)
	}
	missing, _ := p.matchReadReplicas(members, voters)
	return missing
}

// chooseReadReplicas returns the nodes to add for the missing read replicas of a log: the first
// candidates that leave room for the others.
func (p *placer) chooseReadReplicas(on, voters, candidates []uint64) (added []uint64) {
	m := newReadReplicaMatch(p, voters)
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

// unmetReadReplicas describes how the read replicas on the given nodes fall short of the rule.
func (p *placer) unmetReadReplicas(on, voters []uint64) (unmet []string) {
	if len(p.wantedReadReplicas()) == 0 {
		return nil
	}
	m := newReadReplicaMatch(p, voters)
	for _, id := range on {
		m.admit(id)
	}
	missing := m.missing()
	for _, n := range p.state.Members() { // what is missing after this, no node could hold
		if !slices.Contains(on, n.ID) {
			m.admit(n.ID)
		}
	}
	short := m.missing()
	for _, want := range p.wantedReadReplicas() {
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

// readReplicasDue returns the action that brings the read replicas of a log one step closer to its
// rule; its voters are as they should be. A surplus one is removed; a missing one is added; one
// on a lost or drained node moves away if another node may have it.
func readReplicasDue(s *State, l *Log, load map[uint64]int, v View) (a Action, ok bool) {
	p, on, voters := newPlacer(s, l), nodesOf(l.Readers), nodesOf(l.Replicas)
	if len(on) == 0 && len(p.wantedReadReplicas()) == 0 {
		return a, false
	}
	// If there are too many, those that cannot serve are removed first.
	slices.SortStableFunc(on, func(a, b uint64) int { return cmp.Compare(reluctance(s, a, v), reluctance(s, b, v)) })
	able := slices.DeleteFunc(byLoad(s, l, load, v), func(id uint64) bool { return s.Nodes[id].Drained })
	if _, surplus := p.matchReadReplicas(on, voters); len(surplus) > 0 {
		return Action{Kind: RemoveReplica, Log: l.Name, Node: surplus[len(surplus)-1]}, true
	}
	if to := p.chooseReadReplicas(on, voters, able); len(to) > 0 {
		return Action{Kind: AddReadReplica, Log: l.Name, To: to[0]}, true
	}
	// No missing read replica can be added now, so a new node can only replace this one.
	for _, id := range on {
		if reluctance(s, id, v) == 0 {
			continue
		}
		if to := p.chooseReadReplicas(without(on, id), voters, able); len(to) > 0 {
			return Action{Kind: MoveReplica, Log: l.Name, Node: id, To: to[0]}, true
		}
	}
	return a, false
}

// reluctance is higher for a node that should rather not hold a read replica, and 0 for all
// others.
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

// blockingReadReplica returns a node whose read replica of a log prevents a voter that has no other
// place, or 0 if there is none.
func blockingReadReplica(s *State, l *Log, choose func(without *Log) (to uint64)) uint64 {
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
