package core

import (
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

var (
	// ErrEndMissing means that the stored log ends before what this replica has acknowledged, so its
	// votes may be lost, too. It has stopped, and must not return under its id.
	ErrEndMissing = errors.New("this replica has lost entries that it acknowledged")
	// ErrStartMissing means that the oldest records of the log, which have not been trimmed, are not
	// stored here.
	ErrStartMissing = errors.New("the oldest records are not stored here")
	// ErrSpliced means that a committed entry does not follow the entries before it, so the stored
	// entries are not one history. The replica has stopped. If its files are intact, it must not
	// return under its id.
	ErrSpliced = errors.New("the entries stored here do not follow each other")
	// ErrEnded means that the replica has ended because of the damage that the error names. Without
	// ErrEnded it continues.
	ErrEnded = errors.New("this replica has ended")
)

// shortage detects records that should be stored but are not.
//
// Segments are removed only below a committed trim. But after a restart that trim may be among
// the entries that are not known to be committed yet. Once everything that is committed anywhere
// has been applied, missing records are damage.
type shortage struct {
	lifecycle *lifecycle
	group     *group
	round     *round
	reads     *reads
	state     shortageState
}

type shortageState uint8

const (
	// complete means that the stored log begins at or before the start of the log as applied.
	complete shortageState = iota
	// short means that it begins behind it.
	short
	// asking means that it does, and that the leader has been asked what is committed.
	asking
	// reported means that it does although everything has been applied, and that this has been
	// reported.
	reported
)

// tick checks whether the stored log begins too late.
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

// applied checks whether an applied trim explains the missing records.
func (s *shortage) applied() {
	if s.group.storage.table.Start() >= s.group.storage.log.StartOffset() {
		s.state = complete
	}
}

func (s *shortage) report() {
	s.state = reported
	s.round.out.Damaged = fmt.Errorf("records %d to %d were in the missing oldest files of this log: %w",
		s.group.storage.table.Start(), s.group.storage.log.StartOffset()-1, ErrStartMissing)
	if s.group.soleVoter() {
		s.lifecycle.Fail(record.Refuse(record.Corrupt, "%v; stop this node and restore the files from a copy", s.round.out.Damaged))
	}
}
