package client

import (
	"context"
	"errors"
	"time"
)

// producerSession is the session of a producer, which numbers its records. The mutex guards its
// fields.
type producerSession struct {
	*job
	current  Session   // ID 0: not open yet, or none
	next     uint64    // sequence of the next record of a batch to be closed, in current.Epoch
	lastSign time.Time // when the node that has the requests last answered
	renewed  time.Time // when a node last renewed the lease
}

// open finds the log and opens its session. The outcome of an error is always NotDone: a session
// that was opened without an answer ends with its lease.
func (s *producerSession) open(ctx context.Context) error {
	opener := s.client.opener(s.log)
	var err error
	switch resume := s.options.resume; {
	case s.options.withoutSession:
		var info LogInfo
		if info, err = opener.Info(ctx, s.log); err == nil {
			s.logID = info.ID
			s.client.peers.prefer(s.log, info.Leader)
		}
	case resume.Session != 0:
		s.logID, s.next = resume.LogID, resume.Next
		s.current = Session{ID: resume.Session, Epoch: resume.Epoch, Lease: s.options.lease, LogID: resume.LogID}
		err = opener.KeepSession(ctx, s.log, s.current)
	default:
		s.current, err = opener.openSession(ctx, s.log, resume.LogID, s.options.lease)
		s.logID = s.current.LogID
	}
	var failure *Error
	if errors.As(err, &failure) {
		failure.Outcome = NotDone
	}
	return err
}

// reopen opens a session if there is none.
func (s *producerSession) reopen(ctx context.Context) error {
	s.mu.Lock()
	needed := s.current.ID == 0 && !s.options.withoutSession
	s.mu.Unlock()
	if !needed {
		return nil
	}
	session, err := s.client.Admin().openSession(ctx, s.log, s.logID, s.options.lease)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.next, s.lastSign = session, 0, time.Now()
	return nil
}

// keeper returns the Admin for renewals. Trouble is reported by the rounds.
func (s *producerSession) keeper() *Admin {
	a := s.client.keeper(s.log, s.options.lease)
	a.trouble = func(error) {}
	return a
}

// keep renews the lease if a third of it has passed without an answer. An error concerns the
// producer's current session.
func (s *producerSession) keep(now time.Time) *Error {
	s.mu.Lock()
	session, due := s.current, min(now.Sub(s.lastSign), now.Sub(s.renewed)) > s.options.lease/3
	s.mu.Unlock()
	if session.ID == 0 || !due {
		return nil
	}
	// A node may have to be left for its silence, and another one found that leads: it gives a
	// whole lease again.
	ctx, cancel := context.WithTimeout(s.context, s.options.lease)
	defer cancel()
	err := s.keeper().KeepSession(ctx, s.log, session)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current.ID != session.ID:
		return nil
	case err != nil:
		return fromRPC(err)
	}
	s.renewed = now
	return nil
}

// forget gives up the current session, which it returns. The next round opens a new one.
func (s *producerSession) forget() Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	forgotten := s.current
	s.current, s.next = Session{}, 0
	return forgotten
}

// number assigns sequences to the records of a request. The mutex is held.
func (s *producerSession) number(r *request) {
	if s.current.ID != 0 {
		r.session, r.epoch, r.first = s.current.ID, s.current.Epoch, s.next
		s.next += uint64(r.count)
	}
}

// beginEpoch begins an epoch above that of the log, so that later records are not taken for those
// that failed. The mutex is held.
func (s *producerSession) beginEpoch(above uint32) {
	if s.current.ID != 0 {
		s.current.Epoch, s.next = max(s.current.Epoch, above)+1, 0
	}
}

// position returns the position of the next record of a batch to be closed. The mutex is held.
func (s *producerSession) position() SessionPosition {
	return SessionPosition{LogID: s.logID, Session: s.current.ID, Epoch: s.current.Epoch, Next: s.next}
}
