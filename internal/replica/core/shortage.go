package core

import (
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

var (
	// ErrEndMissing: the stored log ends before what this replica has acknowledged,
	// so what it voted for may be forgotten too. It has stopped, and must not
	// come back under its id.
	ErrEndMissing = errors.New("this replica has forgotten what it promised")
	// ErrStartMissing: the oldest records of the log, which nobody has trimmed, are
	// not stored here.
	ErrStartMissing = errors.New("the oldest records are not stored here")
	// ErrSpliced: a committed entry does not follow those in front of it, so
	// what is stored here is not one history. It has stopped. If its files are
	// whole, it must not come back under its id.
	ErrSpliced = errors.New("the entries stored here do not follow each other")
	// ErrEnded: the replica has ended because of the damage that the error names.
	// Without ErrEnded it continues.
	ErrEnded = errors.New("this replica has ended")
)

// shortage is what a core knows of records that should be stored and are not.
//
// Segments are given back only below a trim that has committed. But after a
// restart that trim may lie among the entries which are not known to be
// committed yet. Once everything that is committed anywhere has been applied,
// there is no such excuse.
type shortage struct {
	lifecycle *lifecycle
	group     *group
	round     *round
	reads     *reads
	state     shortageState
}

type shortageState uint8

const (
	// complete: what is stored begins at the start of the log as applied.
	complete shortageState = iota
	// short: it begins behind it.
	short
	// asking: it does, and the leader has been asked what is committed.
	asking
	// reported: it does without an excuse, which the owner knows.
	reported
)

// tick looks whether what is stored begins too late.
func (s *shortage) tick() {
	switch {
	case s.state == complete || s.state == reported || s.group.failed != nil:
	case s.group.role == leaderReady:
		s.report()
	case s.state == short && s.group.leader != 0:
		s.state = asking
		s.reads.Confirm(func(r *record.Refusal) {
			if s.state != asking {
				return
			}
			s.state = short
			if r == nil && s.group.failed == nil {
				s.report()
			}
		})
	}
}

// applied looks whether what has been applied is an excuse.
func (s *shortage) applied() {
	if s.group.storage.table.Start() >= s.group.storage.log.StartOffset() {
		s.state = complete
	}
}

func (s *shortage) report() {
	s.state = reported
	s.round.out.Damaged = fmt.Errorf("records %d to %d are gone with the oldest files of this log: %w",
		s.group.storage.table.Start(), s.group.storage.log.StartOffset()-1, ErrStartMissing)
	if s.group.soleVoter() {
		s.lifecycle.Fail(record.Refuse(record.Corrupt, "%v; stop this node and bring the files back from a copy", s.round.out.Damaged))
	}
}
