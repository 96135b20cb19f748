package sequence

import (
	"fmt"

	"strandline.dev/internal/record"
)

// Holder is the program that has the writer lease of a log.
type Holder struct {
	record.Writer
	Term   record.WriterTerm // granted with the lease; the newest of the log
	Leased int64             // time of the entry that granted it, unix ms
}

// Holder returns the program that has the writer lease, and false if none has. The caller must not
// change its payload; the table does not change it either.
func (t *Table) Holder() (Holder, bool) {
	if t.log.writer == nil {
		return Holder{}, false
	}
	return Holder{Writer: *t.log.writer, Term: t.log.writerTerm, Leased: t.leased}, true
}

// HolderName returns the name of the program that has the writer lease; "" if none has.
func (t *Table) HolderName() string {
	if t.log.writer == nil {
		return ""
	}
	return t.log.writer.Name
}

func sameWriter(a, b *record.Writer) bool {
	return a == b || a != nil && b != nil && a.Name == b.Name && a.Lease == b.Lease && string(a.Payload) == string(b.Payload)
}

// bytesOfWriter returns the approximate memory of a writer in bytes.
func bytesOfWriter(w *record.Writer) int64 {
	if w == nil {
		return 0
	}
	return 64 + int64(len(w.Name)+len(w.Payload))
}

func (t *Table) leaseWriter(c record.Command) string {
	w, err := record.ParseWriter(c.Text)
	w.Lease = c.Lease
	switch {
	case err != nil:
		return fmt.Sprintf("malformed writer: %v", err)
	case c.WriterTerm <= t.log.writerTerm:
		return fmt.Sprintf("writer term %d, the log has %d", c.WriterTerm, t.log.writerTerm)
	case w.Lease == 0 || w.Lease > MaxWriterLeaseMs:
		return fmt.Sprintf("a writer lease of %d ms", w.Lease)
	case t.log.writer != nil && t.log.writer.Name != w.Name:
		return fmt.Sprintf("a writer lease for %q, and %q has it", w.Name, t.log.writer.Name)
	}
	t.log.writerTerm, t.log.writer, t.leased = c.WriterTerm, &w, t.time
	return ""
}

func (l *logState) releaseWriter(c record.Command) string {
	if l.writer == nil || c.WriterTerm != l.writerTerm {
		return fmt.Sprintf("release of the writer lease of term %d, the log has %d", c.WriterTerm, l.writerTerm)
	}
	l.writer = nil
	return ""
}

// leaseWriter grants the writer lease with the next term. Only the program that has the lease, by
// its name, gets it while it has not ended; others wait until LeaseHolder returns none.
func (s commands) leaseWriter(c record.Command) Answer {
	w, err := record.ParseWriter(c.Text)
	w.Lease = c.Lease
	before := s.log.writer
	switch {
	case err != nil:
		return s.refuse(record.Refuse(record.Invalid, "malformed writer: %v", err))
	case w.Lease == 0:
		return s.refuse(record.Refuse(record.Invalid, "a writer lease must be above 0"))
	case w.Lease > MaxWriterLeaseMs:
		r := record.Refuse(record.TooLarge, "the lease has %d ms, the limit is %d", w.Lease, MaxWriterLeaseMs)
		r.Limit = MaxWriterLeaseMs
		return s.refuse(r)
	case before != nil && before.Name != w.Name:
		return s.refuse(record.Refuse(record.Busy, "%q has the writer lease", before.Name))
	case before == nil && s.left == MemoryUsedUp:
		return s.refuse(noMemoryForSessions())
	}
	term := s.log.writerTerm + 1
	d := s.propose(record.Command{Kind: c.Kind, WriterTerm: term, Lease: w.Lease, Text: c.Text})
	s.log.writerTerm, s.log.writer = term, &w
	s.leases.renewWriter()
	return Answer{RestsOn: d.number, WriterTerm: term, Start: s.log.start, End: s.log.end}
}

// releaseWriter ends the writer lease that was granted with a term.
func (s commands) releaseWriter(c record.Command) Answer {
	if r := s.leaseEnded(c.WriterTerm); r != nil {
		return s.refuse(r)
	}
	d := s.propose(record.Command{Kind: c.Kind, WriterTerm: c.WriterTerm, Flags: c.Flags & record.FlagExpired})
	s.log.writer = nil
	return Answer{RestsOn: d.number, WriterTerm: c.WriterTerm, Start: s.log.start, End: s.log.end}
}

// LeaseHolder returns the name of the program that has the writer lease, including what is in
// flight; "" if none has.
func (s commands) LeaseHolder() string {
	if s.log.writer == nil {
		return ""
	}
	return s.log.writer.Name
}

// HasWriterLease reports whether the writer lease was granted with a term and has not ended,
// including what is in flight.
func (s commands) HasWriterLease(term record.WriterTerm) bool { return s.leaseEnded(term) == nil }

// leaseEnded refuses a term whose writer lease has ended, or that was granted without one.
func (s commands) leaseEnded(term record.WriterTerm) *record.Refusal {
	switch {
	case s.log.writer != nil && term == s.log.writerTerm:
		return nil
	case term > s.log.writerTerm || term == 0:
		return record.Refuse(record.Invalid, "writer term %d was never granted, the newest is %d", term, s.log.writerTerm)
	}
	r := record.Refuse(record.Fenced, "the lease of writer term %d has ended, the newest term is %d", term, s.log.writerTerm)
	r.WriterTerm = s.log.writerTerm
	return r
}

// renewWriter records a sign of life of the holder of the writer lease at the last tick.
func (l *leases) renewWriter() { l.writer = max(l.writer, l.elapsed) }

// KeepWriter records a sign of life of the holder of the writer lease. An append with its term is
// one, too, whether it is accepted or not.
func (s expiry) KeepWriter(term record.WriterTerm, now int64) Answer {
	if !s.leading {
		return Answer{Refusal: notLeader()}
	}
	if r := s.leaseEnded(term); r != nil {
		return s.refuse(r)
	}
	s.leases.writer = max(s.leases.writer, s.leases.elapsed+s.leases.step(now))
	if s.table.log.writerTerm != term {
		return Answer{RestsOn: s.newest()} // the command that granted it is in flight
	}
	return Answer{}
}

// WriterLeft returns how long, in milliseconds, the writer lease lasts without another sign of
// life of its holder. It is 0 if nobody has it, or this replica does not lead.
func (s expiry) WriterLeft() int64 {
	w := s.table.log.writer
	if w == nil || !s.leading {
		return 0
	}
	return max(0, s.leases.writer+int64(w.Lease)-s.leases.elapsed)
}

// ExpiredWriter returns the term of the writer lease if it has run out and its end is not in
// flight, else 0. ExpireWriter is due for it.
func (s expiry) ExpiredWriter() record.WriterTerm {
	term := s.table.log.writerTerm
	if s.table.log.writer == nil || !s.leading || s.WriterLeft() > 0 || s.leaseEnded(term) != nil {
		return 0
	}
	return term
}

// ExpireWriter ends the writer lease of a term that ExpiredWriter has returned, unless its holder
// has given a sign of life since.
func (s expiry) ExpireWriter(term record.WriterTerm) Answer {
	if !s.leading || s.leaseEnded(term) != nil || s.leases.writer+int64(s.log.writer.Lease) > s.leases.elapsed {
		return s.unchanged()
	}
	return s.Command(record.Command{Kind: record.ReleaseWriter, WriterTerm: term, Flags: record.FlagExpired})
}
