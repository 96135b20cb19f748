package sequence

import "strandline.dev/internal/record"

// appends decides appends.
type appends struct{ *pipeline }

// Append decides a request. The order of the checks is fixed: duplicates and the order within the
// session first, then the writer term, then the expected end, then the check, then limits; only
// then are offsets assigned. If leading batches of a request are in the log already, the rest is decided, and a
// reason to refuse one batch of the rest refuses all of it.
func (s appends) Append(a *Append) Answer {
	s.memory.reclaim()
	if !s.leading {
		return Answer{Refusal: notLeader()}
	}
	if r := malformed(a); r != nil {
		return s.refuse(r)
	}
	var answer Answer
	p, refusal := s.place(a, &answer)
	if refusal == nil && len(p.batches) > 0 {
		refusal = s.admit(a, &p)
	}
	if refusal != nil {
		answer.Refusal, answer.RestsOn = refusal, s.newest()
		return answer
	}
	if len(p.batches) == 0 {
		answer.Duplicate = true
		return answer
	}
	s.accept(a, &p, &answer)
	return answer
}

// placement is the rest of a request without its duplicates.
type placement struct {
	standing        // state of the session before the rest
	begins     bool // the session does not exist or has ended, and starts with the rest
	batches    []record.Batch
	first      record.Sequence // of the rest, 64 bits wide
	duplicates int             // records before the rest
}

// place determines the position of a request in its session: which leading batches are
// duplicates, whose offsets it adds to the answer, and whether the log may accept the rest now.
func (s appends) place(a *Append, answer *Answer) (placement, *record.Refusal) {
	p := placement{batches: a.Batches, first: a.First}
	if a.Session == 0 {
		return p, nil
	}
	var known bool
	p.standing, known = s.session(a.Session)
	if !known {
		if !a.Implicit || a.First != 0 {
			return p, sessionNotFound(a.Session)
		}
		p.standing = standing{epoch: a.Epoch, next: a.First, implicit: true}
		p.begins = true
		return p, nil
	}
	if p.implicit != a.Implicit {
		return p, record.Refuse(record.Invalid, "session %d was opened over the other protocol (gRPC or Kafka)", a.Session)
	}
	s.leases.renew(a.Session)

	next, epochKnown := s.boundary(a.Session, p.standing, a.Epoch)
	if a.Implicit {
		p.first = unwrap(next, a.First)
	}
	if p.first < next {
		if r := s.skipDuplicates(a, &p, next, answer); r != nil {
			return p, r
		}
		if len(p.batches) == 0 {
			return p, nil
		}
	}
	p.begins = !p.open
	switch {
	case !epochKnown || a.Epoch < p.epoch:
		r := record.Refuse(record.StaleEpoch, "the append has epoch %[3]d, session %[1]d is in epoch %[2]d", a.Session, p.epoch, a.Epoch)
		r.Epoch = p.epoch
		return p, r
	case !p.open && (!p.implicit || a.Epoch == p.epoch):
		return p, sessionExpired(a.Session)
	case p.first != next:
		return p, gap(p.first, next)
	}
	return p, nil
}

// skipDuplicates removes the records below next, which are in the log or in flight, from the
// placement.
func (s appends) skipDuplicates(a *Append, p *placement, next record.Sequence, answer *Answer) *record.Refusal {
	count := min(uint64(next-p.first), uint64(a.Records))
	if !s.locate(answer, a.Session, a.Epoch, p.first, uint32(count)) {
		return record.Refuse(record.OutcomeForgotten,
			"sequence %d of epoch %d was appended, its offset is forgotten", p.first, a.Epoch)
	}
	first := p.first
	p.duplicates = int(count)
	p.first += record.Sequence(count)
	for count > 0 && uint64(p.batches[0].Count()) <= count {
		count -= uint64(p.batches[0].Count())
		p.batches = p.batches[1:]
	}
	switch {
	case count > 0:
		// The batch had other boundaries when it was first sent; part of a batch cannot be appended.
		return gap(first, next)
	case a.Atomic && len(p.batches) > 0:
		return record.Refuse(record.Invalid, "the first %d records of an atomic append are already in the log", p.duplicates)
	}
	return nil
}

func gap(first, next record.Sequence) *record.Refusal {
	r := record.Refuse(record.SequenceGap, "the next sequence must be %d, not %d", next, first)
	r.Expected = next
	return r
}

// admit checks everything that does not depend on the order within the session.
func (s appends) admit(a *Append, p *placement) *record.Refusal {
	if a.WriterTerm != 0 && a.WriterTerm != s.log.writerTerm {
		if a.WriterTerm > s.log.writerTerm {
			return record.Refuse(record.Invalid, "writer term %d was never granted, the newest is %d", a.WriterTerm, s.log.writerTerm)
		}
		r := record.Refuse(record.Fenced, "writer term %d is fenced, the newest is %d", a.WriterTerm, s.log.writerTerm)
		r.WriterTerm = s.log.writerTerm
		return r
	}
	if a.WriterTerm != 0 {
		s.leases.renewWriter()
	}
	if a.WriterTerm == 0 && s.log.shut() {
		r := record.Refuse(record.Fenced, "the log is fenced: an append needs the writer term, the newest is %d", s.log.writerTerm)
		r.WriterTerm = s.log.writerTerm
		return r
	}
	// Records of this request that were appended before have moved the end.
	if a.ExpectedEnd != NoExpectation && a.ExpectedEnd+record.Offset(p.duplicates) != s.log.end {
		r := record.Refuse(record.EndMismatch, "the log ends at %d, not at %d", s.log.end, a.ExpectedEnd)
		r.End = s.log.end
		return r
	}
	if a.Check != nil {
		if r := s.decideCheck(a.Check); r != nil {
			return r
		}
	}
	if s.log.sealed {
		return record.Refuse(record.Sealed, "the log is sealed")
	}
	if s.room != RoomForRecords {
		return s.noRoomForRecords()
	}
	if p.begins {
		if refusal := s.refuseOpening(a.Session); refusal != nil {
			return refusal
		}
	}
	if s.left == MemoryUsedUp && s.remembers(a) > s.table.limits.LeastSpans {
		return noMemoryForSessions()
	}
	if refusal := s.refuseRemembering(a, p.standing); refusal != nil {
		return refusal
	}
	if a.Atomic && entryHeaderBytes+encodedBytes(a) > record.MaxEntryBytes {
		r := record.Refuse(record.TooLarge, "an atomic append of %d bytes, the limit is %d", encodedBytes(a), record.MaxEntryBytes)
		r.Limit = record.MaxEntryBytes
		return r
	}
	return nil
}

// accept assigns offsets to the rest of the request and adds it to proposals.
func (s appends) accept(a *Append, p *placement, answer *Answer) {
	meta := record.BatchMeta{Epoch: a.Epoch, Session: a.Session, LowWater: a.LowWater, WriterTerm: a.WriterTerm}
	if a.Session == 0 {
		meta.Epoch, meta.LowWater = 0, 0
	} else if a.Implicit {
		meta.Flags, meta.LowWater = record.MetaImplicit, 0
	}
	if a.Digested && !s.log.digested {
		s.renew = true
	}
	if a.Atomic {
		s.openFor(encodedBytes(a), a.Records)
	}
	sequence := p.first
	for _, b := range p.batches {
		if !a.Atomic {
			s.openFor(len(b)+batchMetaBytes, b.Count())
		}
		meta.Size, meta.Count = uint32(len(b)), uint32(b.Count())
		if a.Session != 0 {
			meta.First = sequence
			sequence += record.Sequence(meta.Count)
			s.advance(p.standing, &meta)
		}
		s.open.add(meta, b, s.leaderEpoch)
		if s.recent.kept {
			s.recent.add(b, s.log.end)
		}
		answer.RestsOn = s.open.number
		answer.add(s.log.end, meta.Count)
		s.log.end += record.Offset(meta.Count)
		if s.log.digested {
			s.log.uncovered += uint64(meta.Size)
		}
	}
}

// advance moves the session of a batch past it. st is the state of the session if none of its
// changes is in flight.
func (s appends) advance(st standing, m *record.BatchMeta) {
	c := s.change(s.open, m.Session, st)
	if m.Epoch > c.view.epoch {
		c.beginEpoch(m.Epoch)
	}
	if !c.view.open {
		s.turn(c, true)
	}
	c.take(m.Count, s.log.end, s.open.number)
}
