package sequence

import (
	"bytes"
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

// FoldError reports that a committed entry does not fit the previous ones, because of a bug, or a
// lost or repeated entry. The table is then unusable, and the replica stops.
type FoldError struct {
	First  record.Offset // of the entry, as far as it could be read
	Detail string
	Err    error // of the decoder, or ErrMisfit, or nil
}

// ErrMisfit is wrapped if the entry follows other entries than those that were folded.
var ErrMisfit = errors.New("the entry follows other entries")

func (e *FoldError) Error() string {
	return fmt.Sprintf("fold entry at offset %d: %s", e.First, e.Detail)
}

func (e *FoldError) Unwrap() error { return e.Err }

// Fold applies a committed entry to the table. data is an encoded record.Entry and crc its
// record.Checksum, which the caller has verified. The table does not alias data. Any error is a
// *FoldError.
func (t *Table) Fold(data []byte, crc uint32) error {
	e, err := record.ParseEntry(data)
	if err != nil {
		return &FoldError{First: t.log.end, Detail: err.Error(), Err: err}
	}
	if detail := t.misfit(e); detail != "" {
		return &FoldError{First: e.First, Detail: detail, Err: ErrMisfit}
	}
	t.time = e.Time
	detail := ""
	if e.Kind == record.EntryCommand {
		detail = t.foldCommand(e)
	} else {
		detail = t.foldBatches(e)
	}
	if detail != "" {
		return &FoldError{First: e.First, Detail: detail}
	}
	if err := t.digest.Fold(&e); err != nil {
		return &FoldError{First: e.First, Detail: err.Error()}
	}
	t.log.digested, t.log.uncovered = t.digest.Begun, t.digest.Uncovered
	t.chain = record.NextChain(t.chain, crc)
	t.sessions.forgetEnded(t.time)
	return nil
}

// misfit describes why e does not follow the previous entries, or returns "".
func (t *Table) misfit(e record.Entry) string {
	switch {
	case e.First != t.log.end:
		return fmt.Sprintf("the log ends at %d", t.log.end)
	case e.Chain != t.chain:
		return fmt.Sprintf("chain value %016x, expected %016x", e.Chain, t.chain)
	case e.Time < t.time:
		return fmt.Sprintf("time %d, the entry before has %d", e.Time, t.time)
	case e.End() < e.First:
		return "offsets overflow"
	}
	return ""
}

func (t *Table) foldBatches(e record.Entry) string {
	if e.Batches == 0 && (e.Begins || len(e.Hashed) > 0) {
		return "" // it only extends the digest
	}
	if t.log.sealed {
		return "batches in a sealed log"
	}
	if e.Batches == 0 {
		return "no batches"
	}
	var s *session // of the previous batch, often the same
	body := e.Body
	for i := range e.Batches {
		m := e.Meta(i)
		batch := record.Batch(body[:m.Size])
		body = body[m.Size:]
		if detail := t.log.faultOfBatch(m, batch); detail != "" {
			return fmt.Sprintf("batch %d: %s", i, detail)
		}
		if m.Session != 0 {
			if s == nil || s.id != m.Session {
				s = t.sessions.change(m.Session)
			}
			var detail string
			if s, detail = t.foldSession(s, m); detail != "" {
				return fmt.Sprintf("batch %d: %s", i, detail)
			}
		}
		t.log.end += record.Offset(m.Count)
	}
	return ""
}

// foldSession applies a batch to its session s, which is nil if the table has none, and returns
// the session.
func (t *Table) foldSession(s *session, m record.BatchMeta) (*session, string) {
	implicit := m.Flags&record.MetaImplicit != 0
	switch {
	case m.LowWater > m.First:
		return nil, fmt.Sprintf("low-water mark %d above sequence %d", m.LowWater, m.First)
	case m.First+record.Sequence(m.Count) < m.First:
		return nil, "sequences overflow"
	case s == nil && (!implicit || m.First != 0):
		return nil, fmt.Sprintf("session %d is not known", m.Session)
	case s == nil:
		s = t.openSession(m.Session, MaxLeaseMs, true)
		s.epoch, s.knownFrom = m.Epoch, m.Epoch
	case s.implicit != implicit:
		return nil, fmt.Sprintf("session %d was opened over the other protocol (gRPC or Kafka)", m.Session)
	case !s.takes(m.Epoch, m.First):
		return nil, fmt.Sprintf("session %d does not take sequence %d of epoch %d", m.Session, m.First, m.Epoch)
	}
	spans, lives := s.remember, len(s.past)
	if !s.open {
		t.sessions.reopen(s)
		s.open, s.endedAt = true, 0
		t.log.sessions++
	}
	if m.Epoch > s.epoch {
		s.beginEpoch(m.Epoch, t.limits.PastEpochs)
	}
	s.take(m.Count, t.log.end)
	s.raiseLowWater(m.LowWater)
	t.sessions.remembers(s, s.remember-spans, len(s.past)-lives)
	for s.remember > s.maxSpans(&t.limits) || t.sessions.spans > t.limits.Spans && s.remember > t.limits.LeastSpans {
		s.forgetOldest()
		t.sessions.remembers(s, -1, 0)
	}
	return s, ""
}

func (t *Table) foldCommand(e record.Entry) string {
	c, err := record.ParseCommand(e.Body)
	if err != nil {
		return err.Error()
	}
	s := t.sessions.change(c.Session)
	switch c.Kind {
	case record.OpenSession:
		if s != nil || c.Session == 0 || c.Lease == 0 {
			return fmt.Sprintf("session %d cannot be opened", c.Session)
		}
		t.openSession(c.Session, c.Lease, false)
	case record.CloseSession, record.ExpireSession:
		if s == nil || !s.open {
			return fmt.Sprintf("session %d is not open", c.Session)
		}
		s.open, s.endedAt = false, t.time
		t.sessions.end(s)
		t.log.sessions--
	case record.ForgetSession:
		if s == nil || s.open {
			return fmt.Sprintf("session %d has not ended", c.Session)
		}
		t.sessions.forget(s)
	case record.EndEpoch:
		if s == nil || !s.open || c.Epoch < s.epoch || c.Epoch+1 == 0 {
			return fmt.Sprintf("epoch %d of session %d cannot end", c.Epoch, c.Session)
		}
		spans, lives := s.remember, len(s.past)
		s.beginEpoch(c.Epoch+1, t.limits.PastEpochs)
		t.sessions.remembers(s, s.remember-spans, len(s.past)-lives)
	case record.AcquireWriter:
		if c.WriterTerm <= t.log.writerTerm {
			return fmt.Sprintf("writer term %d, the log has %d", c.WriterTerm, t.log.writerTerm)
		}
		t.log.writerTerm, t.log.writer = c.WriterTerm, nil
	case record.LeaseWriter:
		return t.leaseWriter(c)
	case record.ReleaseWriter:
		return t.log.releaseWriter(c)
	case record.Trim:
		return t.log.trim(c)
	case record.SetHold:
		return t.log.setHold(c)
	case record.ReleaseHold:
		return t.log.releaseHold(c)
	case record.Seal:
		t.log.sealed = true
	case record.Configure:
		t.config = bytes.Clone(c.Text)
	case record.Fence:
		if c.Flags&^record.FlagFenced != 0 {
			return fmt.Sprintf("fence with unknown flags %#x", c.Flags)
		}
		t.log.fenced = c.Flags&record.FlagFenced != 0
	}
	return ""
}

func (t *Table) openSession(id record.SessionID, lease uint32, implicit bool) *session {
	s := &session{id: id, lease: lease, standing: standing{open: true, implicit: implicit}}
	t.sessions.add(s)
	t.log.sessions++
	return s
}
