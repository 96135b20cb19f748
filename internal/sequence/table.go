package sequence

import (
	"fmt"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
)

// Table is what the committed entries of a log add up to: its range, the
// newest writer term, the configuration and the sessions. It is a function of
// the entries alone: replicas that folded the same ones have tables with the
// same Snapshot, byte for byte. It is not safe for concurrent use.
type Table struct {
	log    logState
	time   int64  // of the newest entry, unix ms; never decreases
	chain  uint64 // expected in the next entry, see record.NextChain
	config []byte
	digest digest.Tree

	sessions sessionSet
	limits   Limits
}

// logState is what appends and commands change of the log as a whole. The
// table has one, and the sequencer another that is ahead of it.
type logState struct {
	start, end record.Offset // records [start, end) are readable; start <= end
	writerTerm record.WriterTerm
	sealed     bool
	fenced     bool   // once writer is above 0, appends without a term are refused
	digested   bool   // the digest has begun
	uncovered  uint64 // see digest.Tree
	sessions   int    // open ones
	// holds keep what they hold: none of them is below start.
	holds *holds
}

// same reports whether two states are equal.
func (l *logState) same(o *logState) bool {
	a, b := *l, *o
	a.holds, b.holds = nil, nil
	return a == b && l.holds.equal(o.holds)
}

// NewTable is the table of a log without entries.
func NewTable() *Table {
	return &Table{sessions: newSessionSet(), limits: DefaultLimits()}
}

// Limits are those that the table keeps to: DefaultLimits, unless Bound was called.
func (t *Table) Limits() Limits { return t.limits }

// Bound has the table keep to other limits from the next entry on. It comes before the table has a
// sequencer.
func (t *Table) Bound(l Limits) { t.limits = l }

// Copy returns a table like this one. It takes no longer for many sessions than
// for none: what the two share is cloned by the one that changes it, session by
// session. Another goroutine may use the copy.
func (t *Table) Copy() *Table {
	c := *t
	c.sessions, c.digest = t.sessions.copy(), t.digest.Clone()
	return &c
}

// Start is the offset of the first record that was not trimmed.
func (t *Table) Start() record.Offset { return t.log.start }

// End is the offset after the last committed record.
func (t *Table) End() record.Offset { return t.log.end }

// Time is the leader's time in the newest entry, in unix ms; 0 without one.
func (t *Table) Time() int64 { return t.time }

// Writer is the newest writer term that was granted, 0 if none was.
func (t *Table) WriterTerm() record.WriterTerm { return t.log.writerTerm }

func (l *logState) faultOfBatch(m record.BatchMeta, b record.Batch) string {
	switch {
	case len(b) < record.BatchHeaderSize:
		return fmt.Sprintf("%d bytes", len(b))
	case m.Count == 0 || int64(b.Count()) != int64(m.Count):
		return fmt.Sprintf("%d records, the metadata claims %d", b.Count(), m.Count)
	case b.BaseOffset() != l.end:
		return fmt.Sprintf("base offset %d, expected %d", b.BaseOffset(), l.end)
	case m.WriterTerm != 0 && m.WriterTerm != l.writerTerm:
		return fmt.Sprintf("writer term %d, the log has %d", m.WriterTerm, l.writerTerm)
	case m.WriterTerm == 0 && l.shut():
		return fmt.Sprintf("no writer term, in a fenced log that has granted %d", l.writerTerm)
	case m.Flags&^record.MetaImplicit != 0:
		return fmt.Sprintf("unknown flags %#x", m.Flags)
	}
	return ""
}

func (l *logState) trim(c record.Command) string {
	if c.Flags&^record.FlagFastForward != 0 {
		return fmt.Sprintf("trim with unknown flags %#x", c.Flags)
	}
	target := c.Offset
	if target > l.end {
		if c.Flags&record.FlagFastForward == 0 {
			target = l.end
		} else if target > MaxFastForward || l.sealed {
			return fmt.Sprintf("fast-forward to %d", target)
		}
		l.end = target
	}
	if lowest := l.holds.lowest(); lowest != nil && target > lowest.Offset {
		return fmt.Sprintf("trim to %d, hold %q keeps everything from %d", target, lowest.Name, lowest.Offset)
	}
	l.start = max(l.start, target)
	return ""
}

// shut reports whether an append without a writer term is refused.
func (l *logState) shut() bool { return l.fenced && l.writerTerm > 0 }

// Sealed reports whether the log takes no more appends.
func (t *Table) Sealed() bool { return t.log.sealed }

// Fenced reports whether appends without a writer term are refused once a term
// has been granted.
func (t *Table) Fenced() bool { return t.log.fenced }

// Config is the text of the newest Configure command, nil without one. The
// caller must not change it.
func (t *Table) Config() []byte { return t.config }

// OpenSessions counts the sessions that may append.
func (t *Table) OpenSessions() int { return t.log.sessions }

// EndedSessions counts the sessions that Resolve can still answer for after
// their end.
func (t *Table) EndedSessions() int { return t.sessions.ended.Len() }

// Resolve returns the outcome of a sequence, from committed entries alone. A
// session that the table does not know has never been, or is forgotten.
func (t *Table) Resolve(id record.SessionID, epoch record.Epoch, sequence record.Sequence) Outcome {
	s := t.sessions.get(id)
	if s == nil {
		return Outcome{State: Forgotten}
	}
	next, known := s.boundary(epoch)
	switch {
	case !known:
		return Outcome{State: Forgotten}
	case sequence < next:
		if p, found := s.find(epoch, sequence); found {
			return Outcome{State: Committed, Offset: p.at(sequence), Next: next, Known: true}
		}
		return Outcome{State: Forgotten, Next: next, Known: true}
	case epoch == s.epoch && s.open, epoch > s.epoch && (s.open || s.implicit):
		return Outcome{State: NotNow, Next: next, Known: true}
	default:
		return Outcome{State: Never, Next: next, Known: true}
	}
}

// Bytes is about what the sessions and holds take in memory.
func (t *Table) Bytes() int64 {
	return t.log.holds.bytes() + int64(t.sessions.byID.Len())*bytesOfSession + int64(bytesRemembered(t.sessions.spans, t.sessions.lives))
}

// Producer is a session that was opened by its first batch, as Kafka's are.
type Producer struct {
	ID    record.SessionID
	Epoch record.Epoch
	Next  record.Sequence // in Epoch
}

// Producers are the open ones of a table with the lowest ids, most at the most.
func Producers(t *Table, most int) []Producer {
	var all []Producer
	t.sessions.byID.Scan(func(id record.SessionID, s *session) bool {
		if s.open && s.implicit && len(all) < most {
			all = append(all, Producer{ID: id, Epoch: s.epoch, Next: s.next})
		}
		return len(all) < most
	})
	return all
}

// DigestOf is the tree of a table. The caller must not change it.
func DigestOf(t *Table) *digest.Tree { return &t.digest }
