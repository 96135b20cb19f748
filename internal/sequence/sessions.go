package sequence

import (
	"github.com/tidwall/btree"

	"strandline.dev/internal/record"
)

// sessionSet holds the sessions of a table. A copy costs the same however many
// there are: the set and its copy share all they hold, and each clones what it
// changes, when it does.
type sessionSet struct {
	byID btree.Map[record.SessionID, *session] // open and ended
	// ended are those that are not open, by endOrder: the oldest end first.
	ended btree.Map[uint64, record.SessionID]
	ends  uint64 // so far
	spans int    // remembered by all sessions
	lives int    // past epochs of all sessions
	// takes is called with what sessions take more, in bytes, while the sequencer leads. Copies have none.
	takes func(id record.SessionID, bytes int)
	// owner marks the sessions that no copy shares.
	owner *owner
}

// owner has a size, so that no two have the same address.
type owner struct{ _ byte }

func newSessionSet() sessionSet { return sessionSet{owner: new(owner)} }

// copy may be read and changed beside the set by another goroutine.
func (x *sessionSet) copy() sessionSet {
	x.owner = new(owner)
	return sessionSet{byID: *x.byID.Copy(), ended: *x.ended.Copy(), ends: x.ends, spans: x.spans, lives: x.lives, owner: new(owner)}
}

// get returns a session to be read, nil if there is none.
func (x *sessionSet) get(id record.SessionID) *session {
	s, _ := x.byID.Get(id)
	return s
}

// change returns a session to be changed, nil if there is none.
func (x *sessionSet) change(id record.SessionID) *session {
	s := x.get(id)
	if s == nil || s.owner == x.owner {
		return s
	}
	s = s.clone(x.owner)
	x.byID.Set(id, s)
	return s
}

// add takes a new session.
func (x *sessionSet) add(s *session) {
	s.owner = x.owner
	x.byID.Set(s.id, s)
	if x.takes != nil {
		x.takes(s.id, bytesOfSession)
	}
}

// end notes that a session is not open any more; the caller may change it.
func (x *sessionSet) end(s *session) {
	x.ends++
	s.endOrder = x.ends
	x.ended.Set(s.endOrder, s.id)
}

// reopen notes that a session that had ended is open again.
func (x *sessionSet) reopen(s *session) {
	x.ended.Delete(s.endOrder)
	s.endOrder = 0
}

// oldestEnded returns the session that ended first, nil if all are open.
func (x *sessionSet) oldestEnded() *session {
	_, id, found := x.ended.Min()
	if !found {
		return nil
	}
	return x.get(id)
}

// forget removes a session that has ended.
func (x *sessionSet) forget(s *session) {
	x.ended.Delete(s.endOrder)
	x.byID.Delete(s.id)
	x.remembers(s, -s.remember, -len(s.past))
	if x.takes != nil {
		x.takes(s.id, -bytesOfSession)
	}
}

// remembers counts so many spans and past epochs more of a session.
func (x *sessionSet) remembers(s *session, spans, lives int) {
	x.spans += spans
	x.lives += lives
	if x.takes != nil {
		x.takes(s.id, bytesRemembered(spans, lives))
	}
}

// forgetEnded forgets sessions that ended too long ago. The time is that of
// entries, so all replicas forget at the same entry.
func (x *sessionSet) forgetEnded(time int64) {
	for s := x.oldestEnded(); s != nil; s = x.oldestEnded() {
		if x.ended.Len() <= MaxEndedSessions && time-s.endedAt < EndedRetentionMs {
			return
		}
		x.forget(s)
	}
}
