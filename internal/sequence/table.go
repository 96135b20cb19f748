package sequence

import (
	"fmt"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
)

// Table is the state of a log after its committed entries: its range, the newest writer term, the
// configuration, the holds and the sessions. It is a function of the entries alone: replicas that folded the
// same entries have tables with identical Snapshots, byte for byte. It is not safe for concurrent
// use.
type Table struct {
	log    logState
	time   int64  // of the newest entry, unix ms; never decreases
	chain  uint64 // expected in the next entry, see record.NextChain
	config []byte
	digest digest.Tree
	// leased is the time of the entry that granted the writer lease, unix ms.
	leased int64

	sessions sessionSet
	limits   Limits
}

// logState is the state of the log as a whole that appends and commands change. The table has
// one, and the sequencer another one that is ahead of it.
type logState struct {
	start, end record.Offset // records [start, end) are readable; start <= end
	writerTerm record.WriterTerm
	sealed     bool
	fenced     bool   // once writerTerm is above 0, appends without a term are refused
	digested   bool   // the digest has begun
	uncovered  uint64 // see digest.Tree
	sessions   int    // open ones
	// holds are the holds of the log. None of them is below start.
	holds *holds
	// writer has the writer lease, which was granted with writerTerm; nil: no holder. It is never
	// changed in place.
	writer *record.Writer
}

// same reports whether two states are equal.
func (l *logState) same(o *logState) bool {
	a, b := *l, *o
	a.holds, b.holds = nil, nil
	a.writer, b.writer = nil, nil
	return a == b && l.holds.equal(o.holds) && sameWriter(l.writer, o.writer)
}

// NewTable returns the table of a log without entries.
func NewTable() *Table {
	return &Table{sessions: newSessionSet(), limits: DefaultLimits()}
}

// Limits returns the limits of the table: DefaultLimits, unless Bound was called.
func (t *Table) Limits() Limits { return t.limits }

// Bound sets other limits from the next entry on. It must be called before the table has a
// sequencer.
func (t *Table) Bound(l Limits) { t.limits = l }

// Copy returns a copy of the table, in time independent of the number of sessions: shared
// sessions are cloned one by one when either table changes them. Another goroutine may use the
// copy.
func (t *Table) Copy() *Table {
	c := *t
	c.sessions, c.digest = t.sessions.copy(), t.digest.Clone()
	return &c
}

// Start returns the offset of the first record that was not trimmed.
func (t *Table) Start() record.Offset { return t.log.start }

// End returns the offset after the last committed record.
func (t *Table) End() record.Offset { return t.log.end }

// Time returns the leader's time in the newest entry, in Unix milliseconds, or 0 if there is
// none.
func (t *Table) Time() int64 { return t.time }

// WriterTerm returns the newest writer term that was granted, or 0 if none was.
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
		return fmt.Sprintf("trim to %d, hold %q keeps all records from %d on", target, lowest.Name, lowest.Offset)
	}
	l.start = max(l.start, target)
	return ""
}

// shut reports whether an append without a writer term is refused.
func (l *logState) shut() bool { return l.fenced && l.writerTerm > 0 }

// Sealed reports whether the log refuses all further appends.
func (t *Table) Sealed() bool { return t.log.sealed }

// Fenced reports whether appends without a writer term are refused once a term
// has been granted.
func (t *Table) Fenced() bool { return t.log.fenced }

// Config returns the text of the newest Configure command, or nil if there is none. The caller
// must not change it.
func (t *Table) Config() []byte { return t.config }

// OpenSessions returns the number of sessions that may append.
func (t *Table) OpenSessions() int { return t.log.sessions }

// EndedSessions returns the number of ended sessions for which Resolve can still answer.
func (t *Table) EndedSessions() int { return t.sessions.ended.Len() }

// Resolve returns the outcome of a sequence, from committed entries alone. The outcome for an
// unknown session, which never existed or is forgotten, is Forgotten.
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

// Bytes returns the approximate memory of the sessions, the holds and the writer in bytes.
func (t *Table) Bytes() int64 {
	return t.log.holds.bytes() + bytesOfWriter(t.log.writer) + int64(t.sessions.byID.Len())*bytesOfSession + int64(bytesRemembered(t.sessions.spans, t.sessions.lives))
}

// Producer is a session that was opened by its first batch, like those of Kafka's producers.
type Producer struct {
	ID    record.SessionID
	Epoch record.Epoch
	Next  record.Sequence // in Epoch
}

// Producers returns the open producers of a table with the lowest ids, at most most of them.
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

// DigestOf returns the tree of a table. The caller must not change it.
func DigestOf(t *Table) *digest.Tree { return &t.digest }
