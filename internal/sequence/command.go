package sequence

import (
	"strandline.dev/internal/record"
)

// commands decides commands.
type commands struct{ *pipeline }

// Command decides a command. An accepted one becomes a proposal of its own, in order with the
// appends around it. A command that would change nothing is accepted as a duplicate, without an
// entry.
func (s commands) Command(c record.Command) Answer {
	s.memory.reclaim()
	if !s.leading {
		return Answer{Refusal: notLeader()}
	}
	// A program ends an epoch each time it starts. Otherwise a restarted program could not find out
	// which of its records are in the log until the disks have room.
	if s.room == RoomForTrims && !s.MakesRoom(c) && c.Kind != record.EndEpoch {
		return s.refuse(s.noRoomForCommands())
	}
	switch c.Kind {
	case record.OpenSession:
		return s.openSession(c)
	case record.CloseSession, record.ExpireSession:
		return s.endSession(c)
	case record.ForgetSession:
		return s.forgetSession(c)
	case record.EndEpoch:
		return s.endEpoch(c)
	case record.AcquireWriter:
		return s.acquireWriter(c)
	case record.LeaseWriter:
		return s.leaseWriter(c)
	case record.ReleaseWriter:
		return s.releaseWriter(c)
	case record.Trim:
		return s.trim(c)
	case record.SetHold:
		return s.setHold(c)
	case record.ReleaseHold:
		return s.releaseHold(c)
	case record.Seal:
		return s.sealLog(c)
	case record.Configure:
		return s.configure(c)
	case record.Fence:
		return s.fence(c)
	}
	return s.refuse(record.Refuse(record.Unsupported, "unknown command %d", c.Kind))
}

func (s commands) openSession(c record.Command) Answer {
	switch st, known := s.session(c.Session); {
	case c.Session == 0 || c.Lease == 0:
		return s.refuse(record.Refuse(record.Invalid, "session %d needs a lease above 0, not %d ms", c.Session, c.Lease))
	case c.Lease > MaxLeaseMs:
		r := record.Refuse(record.TooLarge, "the lease has %d ms, the limit is %d", c.Lease, MaxLeaseMs)
		r.Limit = MaxLeaseMs
		return s.refuse(r)
	case known && st == standing{open: true}:
		return s.unchanged() // the same command again, after a lost answer
	case known:
		return s.refuse(record.Refuse(record.Invalid, "session %d is already open or has ended", c.Session))
	case s.log.sealed:
		return s.refuse(record.Refuse(record.Sealed, "the log is sealed"))
	}
	if refusal := s.refuseOpening(c.Session); refusal != nil {
		return s.refuse(refusal)
	}
	d := s.propose(record.Command{Kind: c.Kind, Session: c.Session, Lease: c.Lease})
	s.turn(s.change(d, c.Session, standing{}), true)
	return Answer{RestsOn: d.number}
}

func (s commands) endSession(c record.Command) Answer {
	st, known := s.session(c.Session)
	if !known {
		return s.refuse(sessionNotFound(c.Session))
	}
	if !st.open {
		return s.unchanged()
	}
	d := s.propose(record.Command{Kind: c.Kind, Session: c.Session})
	s.turn(s.change(d, c.Session, st), false)
	return Answer{RestsOn: d.number}
}

// forgetSession forgets a session that has ended, unless something of it is in flight.
func (s commands) forgetSession(c record.Command) Answer {
	st, known := s.session(c.Session)
	if !known || st.open || s.views[c.Session] != nil {
		return s.unchanged()
	}
	d := s.propose(record.Command{Kind: c.Kind, Session: c.Session})
	// Later requests in flight see a session that has ended without any records.
	s.change(d, c.Session, st).view.standing = standing{implicit: st.implicit}
	return Answer{RestsOn: d.number}
}

func (s commands) endEpoch(c record.Command) Answer {
	st, known := s.session(c.Session)
	switch {
	case !known:
		return s.refuse(sessionNotFound(c.Session))
	case c.Epoch+1 == 0:
		return s.refuse(record.Refuse(record.Invalid, "epoch %d has no successor", c.Epoch))
	case !st.open || c.Epoch < st.epoch:
		answer := s.unchanged()
		answer.Epoch = st.epoch
		return answer
	case !s.mayEndEpoch(st):
		return s.refuse(s.noRoomForCommands())
	}
	if s.crowdsByEpochs(c.Session, st, c.Epoch+1) {
		return s.refuse(s.remembersTooMuch(c.Session))
	}
	d := s.propose(record.Command{Kind: c.Kind, Session: c.Session, Epoch: c.Epoch})
	s.change(d, c.Session, st).beginEpoch(c.Epoch + 1)
	return Answer{RestsOn: d.number, Epoch: c.Epoch + 1}
}

// acquireWriter grants the requested term, or the next one if it is 0. A writer lease ends.
func (s commands) acquireWriter(c record.Command) Answer {
	term := c.WriterTerm
	if term == 0 {
		term = s.log.writerTerm + 1
	}
	if term <= s.log.writerTerm {
		r := record.Refuse(record.Fenced, "writer term %d is fenced, the newest is %d", term, s.log.writerTerm)
		r.WriterTerm = s.log.writerTerm
		return s.refuse(r)
	}
	d := s.propose(record.Command{Kind: c.Kind, WriterTerm: term})
	s.log.writerTerm, s.log.writer = term, nil
	return Answer{RestsOn: d.number, WriterTerm: term, Start: s.log.start, End: s.log.end}
}

func (s commands) trim(c record.Command) Answer {
	forward := c.Flags&record.FlagFastForward != 0
	switch {
	case c.Offset < 0 || c.Offset > MaxFastForward:
		return s.refuse(record.Refuse(record.Invalid, "cannot trim to offset %d", c.Offset))
	case c.Offset > s.log.end && !forward:
		r := record.Refuse(record.OffsetBeyondEnd, "cannot trim to %d: the log ends at %d", c.Offset, s.log.end)
		r.End = s.log.end
		return s.refuse(r)
	case c.Offset > s.log.end && s.log.sealed:
		return s.refuse(record.Refuse(record.Sealed, "the log is sealed at %d", s.log.end))
	case c.Offset <= s.log.start:
		answer := s.unchanged()
		answer.Start, answer.End = s.log.start, s.log.end
		return answer
	}
	if r := s.held(c.Offset); r != nil {
		return s.refuse(r)
	}
	d := s.propose(record.Command{Kind: c.Kind, Offset: c.Offset, Flags: c.Flags & record.FlagFastForward})
	s.log.start, s.log.end = c.Offset, max(s.log.end, c.Offset)
	return Answer{RestsOn: d.number, Start: s.log.start, End: s.log.end}
}

func (s commands) sealLog(c record.Command) Answer {
	if s.log.sealed {
		answer := s.unchanged()
		answer.Start, answer.End = s.log.start, s.log.end
		return answer
	}
	d := s.propose(record.Command{Kind: c.Kind})
	s.log.sealed = true
	return Answer{RestsOn: d.number, Start: s.log.start, End: s.log.end}
}

func (s commands) configure(c record.Command) Answer {
	if len(c.Text) > MaxConfigBytes {
		r := record.Refuse(record.TooLarge, "the configuration has %d bytes, the limit is %d", len(c.Text), MaxConfigBytes)
		r.Limit = MaxConfigBytes
		return s.refuse(r)
	}
	return Answer{RestsOn: s.propose(record.Command{Kind: c.Kind, Text: c.Text}).number}
}

func (s commands) fence(c record.Command) Answer {
	on := c.Flags&record.FlagFenced != 0
	if s.log.fenced == on {
		return s.unchanged()
	}
	d := s.propose(record.Command{Kind: c.Kind, Flags: c.Flags & record.FlagFenced})
	s.log.fenced = on
	return Answer{RestsOn: d.number}
}

func sessionNotFound(id record.SessionID) *record.Refusal {
	return record.Refuse(record.SessionNotFound, "this log does not know session %d", id)
}

func sessionExpired(id record.SessionID) *record.Refusal {
	return record.Refuse(record.SessionExpired, "session %d has ended", id)
}
