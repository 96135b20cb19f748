package sequence

import (
	"cmp"
	"slices"

	"strandline.dev/internal/record"
)

// Kafka producers do not close their sessions, and get a lease of one day. A log with many
// short-lived producers would reach MaxOpenSessions within the day and refuse all new ones. So if
// there are many, or if the node has little memory left for sessions, those that have been silent
// longest end before their lease does. A producer that returns after that begins a new session,
// as it does after a day.

// eviction is the search for such sessions. Like leases, it exists on the leader only.
type eviction struct {
	due  []*lease // found and not returned yet, silent longest first
	next int64    // value of elapsed at which to search again
	// forget is the value of elapsed at which to search again for ended sessions of principals that
	// crowd the node.
	forget int64
}

// silent returns at most most sessions to end although their leases have not run out.
func (s expiry) silent(most int) []record.SessionID {
	l, e := &s.leases, &s.leases.eviction
	if s.principals.crowding != 0 && !s.crowded(maxExpiredAtOnce) {
		s.principals.crowding = 0
	}
	if !s.short() && s.principals.crowding == 0 {
		e.due = nil
		return nil
	}
	if len(e.due) == 0 && l.elapsed >= e.next {
		e.next = l.elapsed + evictEveryMs
		most := s.log.sessions - evictAbove
		if s.left != MemoryAmple || s.principals.crowding != 0 {
			most = max(most, maxExpiredAtOnce)
		}
		e.due = s.longestSilent(most)
	}
	var ended []record.SessionID
	for len(e.due) > 0 && len(ended) < most {
		if next := e.due[0]; s.evictable(next) {
			ended = append(ended, next.id)
		}
		e.due = e.due[1:]
	}
	return ended
}

// short reports whether the log has little room for sessions of any principal.
func (s expiry) short() bool { return s.log.sessions > evictAbove || s.left != MemoryAmple }

func (s expiry) longestSilent(most int) []*lease {
	var found []*lease
	for _, one := range s.leases.byID {
		if s.evictable(one) && (s.short() || one.id.Principal() == s.principals.crowding) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b *lease) int {
		return cmp.Or(cmp.Compare(a.renewed, b.renewed), cmp.Compare(a.id, b.id))
	})
	return found[:min(len(found), most)]
}

func (s expiry) evictable(l *lease) bool {
	if s.leases.byID[l.id] != l || s.leases.elapsed-l.renewed < EvictSilentMs {
		return false
	}
	st, _ := s.session(l.id)
	return st.open && st.implicit
}

// inTheWay reports whether a session with a lease must end to make room for others.
func (s expiry) inTheWay(l *lease) bool {
	return (s.short() || l.id.Principal() == s.principals.crowding) && s.evictable(l)
}

// Forgettable returns sessions for which ForgetSession is due at unixMs, at most a few hundred,
// in the order of their ends. If the node has little memory left, these are all sessions that
// ended long enough ago; otherwise only those of principals that take more of it than is left to
// others. Such a principal would get no session for EndedRetentionMs, and would have none to
// close.
func (s expiry) Forgettable(unixMs int64) []record.SessionID {
	tight := s.left != MemoryAmple
	l := &s.leases
	if !s.leading || !tight && l.elapsed < l.forget {
		return nil
	}
	var crowds map[uint32]bool
	if !tight {
		if crowds = s.principals.crowds(); crowds == nil {
			l.forget = l.elapsed + evictEveryMs
			return nil
		}
	}
	var due []record.SessionID
	s.table.sessions.ended.Scan(func(_ uint64, id record.SessionID) bool {
		if s.table.sessions.get(id).endedAt > unixMs-EvictSilentMs {
			return false
		}
		if s.views[id] == nil && (tight || crowds[id.Principal()]) {
			due = append(due, id)
		}
		return len(due) < maxExpiredAtOnce
	})
	if len(due) < maxExpiredAtOnce {
		l.forget = l.elapsed + evictEveryMs // up to MaxEndedSessions of others were examined
	}
	return due
}
