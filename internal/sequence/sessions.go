package sequence

import (
	"github.com/tidwall/btree"

	"strandline.dev/internal/record"
)

// sessionSet is the sessions of a table. Copying it takes constant time: the set and its copy
// share everything, and each clones a session when it changes it.
type sessionSet struct {
	byID btree.Map[record.SessionID, *session] // open and ended
	// ended are the sessions that are not open, by endOrder: the oldest end first.
	ended btree.Map[uint64, record.SessionID]
	ends  uint64 // number of ends so far
	spans int    // remembered by all sessions
	lives int    // past epochs of all sessions
	// takes is called with the additional memory of a session, in bytes, while the sequencer leads.
	// It is nil in copies.
	takes func(id record.SessionID, bytes int)
	// tag marks the sessions that no copy shares.
	tag *copyTag
}

// copyTag identifies a copy of a sessionSet by its address. It has a size, so that no two have the
// same address.
type copyTag struct{ _ byte }

func newSessionSet() sessionSet { return sessionSet{tag: new(copyTag)} }

// copy returns a set that another goroutine may read and change concurrently.
func (x *sessionSet) copy() sessionSet {
	x.tag = new(copyTag)
	return sessionSet{byID: *x.byID.Copy(), ended: *x.ended.Copy(), ends: x.ends, spans: x.spans, lives: x.lives, tag: new(copyTag)}
}

// get returns a session for reading, or nil if there is none.
func (x *sessionSet) get(id record.SessionID) *session {
	s, _ := x.byID.Get(id)
	return s
}

// change returns a session that may be changed, or nil if there is none.
func (x *sessionSet) change(id record.SessionID) *session {
	s := x.get(id)
	if s == nil || s.tag == x.tag {
		return s
	}
	s = s.clone(x.tag)
	x.byID.Set(id, s)
	return s
}

// add adds a new session.
func (x *sessionSet) add(s *session) {
	s.tag = x.tag
	x.byID.Set(s.id, s)
	if x.takes != nil {
		x.takes(s.id, bytesOfSession)
	}
}

// end records that a session is no longer open. The session must come from change.
func (x *sessionSet) end(s *session) {
	x.ends++
	s.endOrder = x.ends
	x.ended.Set(s.endOrder, s.id)
}

// reopen records that an ended session is open again.
func (x *sessionSet) reopen(s *session) {
	x.ended.Delete(s.endOrder)
	s.endOrder = 0
}

// oldestEnded returns the session that ended first, or nil if all are open.
func (x *sessionSet) oldestEnded() *session {
	_, id, found := x.ended.Min()
	if !found {
		return nil
	}
	return x.get(id)
}

// forget removes an ended session.
func (x *sessionSet) forget(s *session) {
	x.ended.Delete(s.endOrder)
	x.byID.Delete(s.id)
	x.remembers(s, -s.remember, -len(s.past))
	if x.takes != nil {
		x.takes(s.id, -bytesOfSession)
	}
}

// remembers adds to the counts of spans and past epochs of a session.
func (x *sessionSet) remembers(s *session, spans, lives int) {
	x.spans += spans
	x.lives += lives
	if x.takes != nil {
		x.takes(s.id, bytesRemembered(spans, lives))
	}
}

// forgetEnded forgets sessions that ended too long ago. The time is that of entries, so all
// replicas forget at the same entry.
func (x *sessionSet) forgetEnded(time int64) {
	for s := x.oldestEnded(); s != nil; s = x.oldestEnded() {
		if x.ended.Len() <= MaxEndedSessions && time-s.endedAt < EndedRetentionMs {
			return
		}
		x.forget(s)
	}
}
