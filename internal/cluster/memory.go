package cluster

import (
	"iter"
	"slices"

	"strandline.dev/internal/record"
)

// A memory log lives in the memory of its replicas. A process that begins again has
// lost its part, so its replica gets a new id and learns from the others. When no
// majority is left the log is lost. It begins anew, with replicas that know nothing
// of the old ones. So that no offset and no writer term is given twice, both stay
// below ceilings that the catalog has reserved, and the log begins anew above them.

const (
	// OffsetBlock is how many offsets a memory log reserves ahead of use: an hour
	// at a million records a second.
	OffsetBlock = 1 << 32
	// TermBlock is how many writer terms it reserves.
	TermBlock = 1 << 20
)

// Reserved is what a memory log may use, and what it must not use again.
type Reserved struct {
	// Offsets below Lost, and writer terms up to LostTerm, belong to earlier
	// replicas of the log, whose records are gone.
	Lost     record.Offset     `json:"lost,omitempty"`
	LostTerm record.WriterTerm `json:"lost_term,omitempty"`
	// Offsets stay below Ceiling, and terms at or below TermCeiling.
	Ceiling     int64             `json:"ceiling,omitempty"`
	TermCeiling record.WriterTerm `json:"term_ceiling,omitempty"`
}

// Reserve moves both ceilings a block above what is in use.
func (r *Reserved) Reserve(end record.Offset, term record.WriterTerm) {
	r.Ceiling = max(r.Ceiling, int64(end)) + OffsetBlock
	r.TermCeiling = max(r.TermCeiling, term) + TermBlock
}

const (
	// offsetMargin covers what is in flight and not in the readable end yet.
	offsetMargin = 1 << 28
	// termMargin does so for writer terms: each has a caller that waits for it.
	termMargin = 1 << 16
)

// ReserveDue reports whether half of a block below a ceiling is used, so that the
// leader has to ask the catalog for more (Reserve).
func (r *Reserved) ReserveDue(end record.Offset, term record.WriterTerm) bool {
	return int64(end)+OffsetBlock/2 >= r.Ceiling || term+TermBlock/2 >= r.TermCeiling
}

// HasOffsets reports whether records may be appended at end. It is false, too, as
// long as a log that begins anew has not moved on to where it lost its records.
func (r *Reserved) HasOffsets(end record.Offset, records int) bool {
	return end >= r.Lost && int64(end)+offsetMargin+int64(records) <= r.Ceiling
}

// HasTerms reports whether another writer term may be granted.
func (r *Reserved) HasTerms(term record.WriterTerm) bool { return term+termMargin <= r.TermCeiling }

// Raised is r with the ceilings of other where those are higher.
func (r Reserved) Raised(other Reserved) Reserved {
	r.Ceiling, r.TermCeiling = max(r.Ceiling, other.Ceiling), max(r.TermCeiling, other.TermCeiling)
	return r
}

// ReserveFor moves the ceilings of a log up; refused if the log has gone.
func ReserveFor(s *State, name string, id uint64, end record.Offset, term record.WriterTerm) (Log, Change, *record.Refusal) {
	l, ok := s.Logs[name]
	if !ok || l.ID != id {
		return l, Change{}, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	l.Reserve(end, term)
	return l, Change{Put: []Log{l}}, nil
}

// BeginAnew lets memory logs begin anew that were found lost, if their placement is
// still the one that was judged.
func BeginAnew(s *State, lost []Log) (c Change) {
	next := s.NextReplica
	for _, judged := range lost {
		l, ok := s.Logs[judged.Name]
		if !ok || l.ID != judged.ID || !l.Same(&judged.Placement) {
			continue // it is looked at again
		}
		next = l.BeginAnew(next)
		c.Put = append(c.Put, l)
	}
	return c
}

// BeginAnew gives a memory log that is lost replicas in the places of those that it
// should have. Next is the first id that was never used; BeginAnew returns the next
// such one.
func (l *Log) BeginAnew(next uint64) uint64 {
	l.Lost, l.LostTerm = record.Offset(l.Ceiling), l.TermCeiling
	l.Reserve(0, 0)
	replicas := make([]Replica, len(l.Replicas))
	l.Founders, l.Leaving = nil, nil
	for i, r := range l.Replicas {
		replicas[i] = Replica{ID: next, Node: r.Node}
		l.Founders = append(l.Founders, next)
		next++
	}
	l.Replicas = replicas
	l.Readers = slices.Clone(l.Readers)
	for i := range l.Readers {
		l.Readers[i].ID, l.Readers[i].New = next, true
		next++
	}
	return next
}

// Doubtful reports whether a replica that takes another one for the leader of a memory log cannot rely on
// that: it knows none (0), or one that is lost or was taken away. A learner never stands for election, and so
// takes a leader that has ended for the leader as long as no other comes.
func (p *Placement) Doubtful(leader uint64) bool {
	_, there := p.find(func(r Replica) bool { return r.ID == leader && !r.Lost })
	return !there
}

// Kept is what is left of a memory log's replica.
type Kept struct {
	// Made: the replica began on its node. Runs: it runs there now; if it was made
	// and does not run, its node has not noted yet that it is lost.
	Made, Runs bool
	// Ended: it runs no more, and never votes again.
	Ended bool `json:"Ended,omitempty"`
	// Candidacy is that of a replica that runs.
	Candidacy
}

// Candidacy is what decides whether a replica can be elected, and whom it votes for.
type Candidacy struct {
	Term uint64
	// Last is the index of the replica's newest entry, and LastTerm the term of that. Last is 0
	// if a node of an earlier version has answered.
	Last, LastTerm uint64
	// Applied is the index of the newest entry that has been applied.
	Applied uint64
	// Leads: the replica is the leader of its term.
	Leads bool
	// Voters and Outgoing are Raft's configuration as the replica has applied it.
	Voters, Outgoing []uint64
}

// Same reports whether nothing has happened between two answers of a replica.
func (k *Kept) Same(o *Kept) bool {
	return k.Made == o.Made && k.Runs == o.Runs && k.Ended == o.Ended && k.Term == o.Term && k.Last == o.Last &&
		k.LastTerm == o.LastTerm && k.Applied == o.Applied && k.Leads == o.Leads &&
		slices.Equal(k.Voters, o.Voters) && slices.Equal(k.Outgoing, o.Outgoing)
}

// Fate says whether a memory log can still elect a leader.
type Fate int

const (
	FateUnknown Fate = iota
	FateAlive
	// FateStuck: replicas run, and a majority of them would have to vote for one that lacks
	// entries which they have. If that holds at one moment (SameAnswers of two rounds of questions), no
	// leader is elected any more, unless a message is still under way that an earlier leader sent.
	// So those replicas have to end before the log begins anew; then its fate is FateLost.
	FateStuck
	FateLost
)

// Fate judges by what is left of each replica that is not lost. Gone reports
// whether a node is gone for good, with all that it held.
//
// The catalog cannot say it: while replicas come and go, Raft's configuration is
// ahead of it. But each replica counts votes by the configuration that it has
// applied. Where no voter finds a majority in its own, none will ever be elected,
// nothing more commits, and so no configuration changes.
//
// A majority does not help a voter that lacks entries: who has more does not vote for it. That
// happens where the leader of a joint configuration is lost with the voters that came in: who has
// applied it finds no majority, and has the longer log.
func (p *Placement) Fate(kept map[uint64]Kept, gone func(node uint64) bool) Fate {
	known := true
	runs := map[uint64]Kept{}
	for r := range p.keeping() {
		k, answered := kept[r.ID]
		switch {
		case k.Runs:
			runs[r.ID] = k
		case answered && !k.Made && (k.Ended || !slices.Contains(p.Founders, r.ID)), !answered && gone(r.Node):
			// A founder that has not begun yet may do so at any moment, and has a vote from then on.
		default:
			known = false
		}
	}
	running := func(id uint64) bool { _, there := runs[id]; return there }
	found, led := false, false
	for id, k := range runs {
		led = led || k.Leads
		if !slices.Contains(k.Voters, id) && !slices.Contains(k.Outgoing, id) || !k.majority(running) {
			continue
		}
		votes := func(id uint64) bool { v, there := runs[id]; return there && k.gets(v) }
		if found = true; k.Leads || k.majority(votes) {
			return FateAlive
		}
	}
	switch {
	case !known:
		return FateUnknown
	case found && led: // it still sends its entries to those that lack them
		return FateUnknown
	case found:
		return FateStuck
	}
	return FateLost
}

// keeping are the replicas that may hold a part of a memory log, and have or get a vote.
func (p *Placement) keeping() iter.Seq[Replica] {
	return func(yield func(Replica) bool) {
		for _, list := range [][]Replica{p.Replicas, p.Leaving} {
			for _, r := range list {
				if !r.Lost && !r.Reader && !yield(r) {
					return
				}
			}
		}
	}
}

// SameAnswers reports whether nothing has happened at any replica that runs between two rounds of
// questions. Where the second was asked after the answers of the first, there was a moment at which all
// answers were true.
func (p *Placement) SameAnswers(first, second map[uint64]Kept) bool {
	for r := range p.keeping() {
		a, b := first[r.ID], second[r.ID]
		if (a.Runs || b.Runs) && !a.Same(&b) {
			return false
		}
	}
	return true
}

// gets reports whether a replica gets the vote of another one.
func (k *Kept) gets(voter Kept) bool {
	return k.Last == 0 || voter.LastTerm < k.LastTerm || voter.LastTerm == k.LastTerm && voter.Last <= k.Last
}

// majority reports whether a majority of the replica's configuration counts.
func (k *Kept) majority(counts func(id uint64) bool) bool {
	return majority(k.Voters, counts) && (len(k.Outgoing) == 0 || majority(k.Outgoing, counts))
}

func majority(voters []uint64, counts func(id uint64) bool) bool {
	n := 0
	for _, id := range voters {
		if counts(id) {
			n++
		}
	}
	return 2*n > len(voters)
}

// IsGone reports whether a node counts as gone for good, with all that it held: it was
// removed, or is to leave and is lost (View.Lost). One that is replaced while it runs
// may be late with its answer, and hold the replica that makes a majority.
func IsGone(s *State, node uint64, lost func(node uint64) bool) bool {
	n, member := s.Nodes[node]
	return !member || n.Leaving && lost(node)
}
