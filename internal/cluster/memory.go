package cluster

import (
	"iter"
	"slices"

	"strandline.dev/internal/record"
)

// A memory log is kept in the memory of its replicas. A process that restarts has lost its
// replica, which gets a new id and copies the log from the others. When no majority is left, the
// log is lost and restarts with new replicas that know nothing of the old ones. So that no offset
// and no writer term is used twice, both stay below ceilings that the catalog has reserved, and
// the log restarts above them.

const (
	// OffsetBlock is how many offsets a memory log reserves ahead: enough for an hour at a million
	// records per second.
	OffsetBlock = 1 << 32
	// TermBlock is how many writer terms a memory log reserves ahead.
	TermBlock = 1 << 20
)

// Reserved is the offsets and writer terms that a memory log may use, and those that it must not
// use again.
type Reserved struct {
	// Offsets below Lost, and writer terms up to LostTerm, belong to earlier replicas of the log,
	// whose records are lost.
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
	// offsetMargin covers records in flight, which are not below the readable end yet.
	offsetMargin = 1 << 28
	// termMargin does the same for writer terms: each one has a caller that waits for it.
	termMargin = 1 << 16
)

// ReserveDue reports whether half of a block below a ceiling is used, so that the leader has to
// reserve more in the catalog.
func (r *Reserved) ReserveDue(end record.Offset, term record.WriterTerm) bool {
	return int64(end)+OffsetBlock/2 >= r.Ceiling || term+TermBlock/2 >= r.TermCeiling
}

// HasOffsets reports whether records may be appended at end. It also returns false until a log
// that restarts has moved its end to Lost.
func (r *Reserved) HasOffsets(end record.Offset, records int) bool {
	return end >= r.Lost && int64(end)+offsetMargin+int64(records) <= r.Ceiling
}

// HasTerms reports whether another writer term may be granted.
func (r *Reserved) HasTerms(term record.WriterTerm) bool { return term+termMargin <= r.TermCeiling }

// Raised returns r with the ceilings of other if those are higher.
func (r Reserved) Raised(other Reserved) Reserved {
	r.Ceiling, r.TermCeiling = max(r.Ceiling, other.Ceiling), max(r.TermCeiling, other.TermCeiling)
	return r
}

// ReserveFor raises the ceilings of a log. It is refused if the log was deleted.
func ReserveFor(s *State, name string, id uint64, end record.Offset, term record.WriterTerm) (Log, Change, *record.Refusal) {
	l, ok := s.Logs[name]
	if !ok || l.ID != id {
		return l, Change{}, record.Refuse(record.LogNotFound, "there is no log %q", name)
	}
	l.Reserve(end, term)
	return l, Change{Put: []Log{l}}, nil
}

// BeginAnew restarts memory logs that were found lost, if their placement has not changed since.
func BeginAnew(s *State, lost []Log) (c Change) {
	next := s.NextReplica
	for _, judged := range lost {
		l, ok := s.Logs[judged.Name]
		if !ok || l.ID != judged.ID || !l.Same(&judged.Placement) {
			continue // it will be judged again
		}
		next = l.BeginAnew(next)
		c.Put = append(c.Put, l)
	}
	return c
}

// BeginAnew gives a lost memory log new replicas in place of those that it should have. next is
// the first unused replica id; BeginAnew returns the first unused one afterwards.
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

// Doubtful reports whether the leader that a replica of a memory log knows may not exist any
// more: it knows none (0), or one that is lost or was removed. A learner never stands for
// election, and so keeps a leader that has ended until another one appears.
func (p *Placement) Doubtful(leader uint64) bool {
	_, there := p.find(func(r Replica) bool { return r.ID == leader && !r.Lost })
	return !there
}

// Kept describes what is left of a memory log's replica.
type Kept struct {
	// Made is set if the replica was created on its node, Runs if it runs there now. If it was made
	// and does not run, its node has not recorded yet that it is lost.
	Made, Runs bool
	// Ended is set if it no longer runs and never votes again.
	Ended bool `json:"Ended,omitempty"`
	// Candidacy is set if the replica runs.
	Candidacy
}

// Candidacy decides whether a replica can be elected, and for which replicas it votes.
type Candidacy struct {
	Term uint64
	// Last is the index of the replica's newest entry, and LastTerm the term of that entry. Last is
	// 0 if a node of an earlier version answered.
	Last, LastTerm uint64
	// Applied is the index of the newest applied entry.
	Applied uint64
	// Leads is set if the replica is the leader of its term.
	Leads bool
	// Voters and Outgoing are Raft's configuration as the replica has applied it.
	Voters, Outgoing []uint64
}

// Same reports whether nothing has happened at a replica between two answers.
func (k *Kept) Same(o *Kept) bool {
	return k.Made == o.Made && k.Runs == o.Runs && k.Ended == o.Ended && k.Term == o.Term && k.Last == o.Last &&
		k.LastTerm == o.LastTerm && k.Applied == o.Applied && k.Leads == o.Leads &&
		slices.Equal(k.Voters, o.Voters) && slices.Equal(k.Outgoing, o.Outgoing)
}

// Fate is whether a memory log can still elect a leader.
type Fate int

const (
	FateUnknown Fate = iota
	FateAlive
	// FateStuck means that replicas run, but a majority would have to vote for one that lacks
	// entries that they have. If that holds at one moment (SameAnswers of two rounds of queries), no
	// leader will be elected, unless a message of an earlier leader is still in flight. So those
	// replicas have to end before the log restarts; then its fate is FateLost.
	FateStuck
	FateLost
)

// Fate decides from what is left of each replica that is not lost. gone reports whether a node is
// permanently gone, with everything that it held.
//
// The catalog cannot decide it: while replicas are added and removed, Raft's configuration is
// ahead of it. But each replica counts votes by the configuration that it has applied. If no
// voter has a majority in its own configuration, none will ever be elected, nothing more commits,
// and so no configuration changes.
//
// A majority does not help a voter that lacks entries: replicas with more entries do not vote for
// it. That happens if the leader of a joint configuration is lost together with the incoming
// voters: a replica that has applied the joint configuration has no majority, and has the longer
// log.
func (p *Placement) Fate(kept map[uint64]Kept, gone func(node uint64) bool) Fate {
	known := true
	runs := map[uint64]Kept{}
	for r := range p.keeping() {
		k, answered := kept[r.ID]
		switch {
		case k.Runs:
			runs[r.ID] = k
		case answered && !k.Made && (k.Ended || !slices.Contains(p.Founders, r.ID)), !answered && gone(r.Node):
			// A founder that has not been created yet may be at any moment, and has a vote from then on.
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
	case found && led: // the leader still sends its entries to the others
		return FateUnknown
	case found:
		return FateStuck
	}
	return FateLost
}

// keeping returns the replicas that may hold a part of a memory log and that have or will get a
// vote.
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

// SameAnswers reports whether nothing has happened at any running replica between two rounds of
// queries. If the second round began after the answers of the first, all answers were true at one
// moment.
func (p *Placement) SameAnswers(first, second map[uint64]Kept) bool {
	for r := range p.keeping() {
		a, b := first[r.ID], second[r.ID]
		if (a.Runs || b.Runs) && !a.Same(&b) {
			return false
		}
	}
	return true
}

// gets reports whether voter would vote for k.
func (k *Kept) gets(voter Kept) bool {
	return k.Last == 0 || voter.LastTerm < k.LastTerm || voter.LastTerm == k.LastTerm && voter.Last <= k.Last
}

// majority reports whether counts holds for a majority of the replica's configuration.
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

// IsGone reports whether a node counts as permanently gone, with everything that it held: it was
// removed, or is leaving and lost (View.Lost). A node that is being replaced while it runs may
// answer late, and hold the replica that makes a majority.
func IsGone(s *State, node uint64, lost func(node uint64) bool) bool {
	n, member := s.Nodes[node]
	return !member || n.Leaving && lost(node)
}
