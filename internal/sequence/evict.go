package sequence

import (
	"cmp"
	"slices"

	"strandline.dev/internal/record"
)

// Kafka's producers end their sessions by falling silent, and get a lease of a day.
// A log that many short-lived ones write to would reach MaxOpenSessions within the
// day and refuse all new ones; so where there are many, those that have been silent
// for longest end before their lease does; and so they do where the node has little
// memory left for sessions. A producer that returns after that begins a
// new session, as it does after a day.

// eviction is the search for such sessions; it is the leader's own, as leases are.
type eviction struct {
	due  []*lease // found and not returned yet, longest silent first
	next int64    // elapsed at which to look again
	// forget is elapsed at which to look again for ended sessions of principals that crowd the node.
	forget int64
}

// silent returns sessions to end though their leases have not run out, most at the
// most.
func (s expiry) silent(most int) []record.SessionID {
	l, e := &s.leases, &s.leases.eviction
	if s.owners.crowding != 0 && !s.crowded(maxExpiredAtOnce) {
		s.owners.crowding = 0
	}
	if !s.short() && s.owners.crowding == 0 {
		e.due = nil
		return nil
	}
	if len(e.due) == 0 && l.elapsed >= e.next {
		e.next = l.elapsed + evictEveryMs
		most := s.log.sessions - evictAbove
		if s.left != MemoryAmple || s.owners.crowding != 0 {
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

// short reports whether the log has little room for sessions, whoever opens them.
func (s expiry) short() bool { return s.log.sessions > evictAbove || s.left != MemoryAmple }

func (s expiry) longestSilent(most int) []*lease {
	var found []*lease
	for _, one := range s.leases.byID {
		if s.evictable(one) && (s.short() || one.id.Owner() == s.owners.crowding) {
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

// inTheWay reports whether a session that has a lease is to make room for others.
func (s expiry) inTheWay(l *lease) bool {
	return (s.short() || l.id.Owner() == s.owners.crowding) && s.evictable(l)
}

// Forgettable returns sessions for each of which ForgetSession is due at unixMs, some
// hundreds at most, in the order of their ends: all, where the node has little memory left, else those of
// principals that take more of it than is left to others. These would get no session for as long as
// EndedRetentionMs, with none that they could close.
func (s expiry) Forgettable(unixMs int64) []record.SessionID {
	tight := s.left != MemoryAmple
	l := &s.leases
	if !s.leading || !tight && l.elapsed < l.forget {
		return nil
	}
	var crowds map[uint32]bool
	if !tight {
		if crowds = s.owners.crowds(); crowds == nil {
			l.forget = l.elapsed + evictEveryMs
			return nil
		}
	}
	var due []record.SessionID
	s.table.sessions.ended.Scan(func(_ uint64, id record.SessionID) bool {
		if s.table.sessions.get(id).endedAt > unixMs-EvictSilentMs {
			return false
		}
		if s.views[id] == nil && (tight || crowds[id.Owner()]) {
			due = append(due, id)
		}
		return len(due) < maxExpiredAtOnce
	})
	if len(due) < maxExpiredAtOnce {
		l.forget = l.elapsed + evictEveryMs // up to MaxEndedSessions of others were looked through
	}
	return due
}
