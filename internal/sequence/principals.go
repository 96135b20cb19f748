package sequence

import "strandline.dev/internal/record"

// principals counts the open sessions of each principal, including those in flight, and the memory
// of everything that the log knows about them, so that no principal takes the places of all others.
// Like leases, the counts exist on the leader only and are not in any entry. A principal is known by
// the number that the ids of its sessions contain, see record.SessionID.Principal.
type principals struct {
	table *Table           // nil while the sequencer does not lead
	open  map[uint32]int   // by the number of the principal
	bytes map[uint32]int64 // of sessions that are open, in flight or ended, with what they remember
	node  NodePrincipals   // nil: other logs are not counted
	// crowding is the principal that was last refused because of its share: its silent producers
	// make room, see eviction.
	crowding uint32
}

// NodePrincipals counts the memory of the sessions of principals in all logs that a node leads.
type NodePrincipals interface {
	// Changed adds by, which may be negative, to the bytes of a principal.
	Changed(principal uint32, by int64)
	// Crowds reports whether a principal with more additional bytes would have too large a share.
	Crowds(principal uint32, more int64) bool
}

// CountPrincipals makes the sequencer report its counts to a node. It must be called before the
// sequencer leads.
func (s *pipeline) CountPrincipals(n NodePrincipals) { s.principals.node = n }

// changed counts a session that opened (1) or ended (-1). Sessions without a principal are
// not counted: there are none if rights are enforced, and only such ones otherwise.
func (p *principals) changed(id record.SessionID, by int) {
	principal := id.Principal()
	if principal == 0 || p.table == nil {
		return
	}
	if p.open[principal] += by; p.open[principal] == 0 {
		delete(p.open, principal)
	}
	if principal == p.crowding && p.open[principal] == 0 {
		p.crowding = 0
	}
}

// takes adds bytes to the memory of a session.
func (p *principals) takes(id record.SessionID, bytes int) {
	principal := id.Principal()
	if principal == 0 || bytes == 0 || p.table == nil {
		return
	}
	if p.bytes[principal] += int64(bytes); p.bytes[principal] == 0 {
		delete(p.bytes, principal)
	}
	if p.node != nil {
		p.node.Changed(principal, int64(bytes))
	}
}

// start counts the sessions of a table, and follows its changes from then on.
func (p *principals) start(t *Table) {
	p.stop()
	p.table, p.open, p.bytes = t, map[uint32]int{}, map[uint32]int64{}
	t.sessions.byID.Scan(func(id record.SessionID, s *session) bool {
		if s.open {
			p.changed(id, 1)
		}
		p.takes(id, bytesOfSession+bytesRemembered(s.remember, len(s.past)))
		return true
	})
	t.sessions.takes = p.takes
}

// stop removes all counts.
func (p *principals) stop() {
	if p.table != nil {
		p.table.sessions.takes = nil
	}
	if p.node != nil {
		for principal, bytes := range p.bytes {
			p.node.Changed(principal, -bytes)
		}
	}
	p.table, p.open, p.bytes, p.crowding = nil, nil, nil, 0
}

// refuseRemembering refuses an append to a session that remembers much, if the sessions of its
// principal remember more than their share.
func (s *pipeline) refuseRemembering(a *Append, st standing) *record.Refusal {
	principal := a.Session.Principal()
	runs := principal != 0 && s.principals.node != nil && s.remembers(a) > s.table.limits.LeastSpans && s.principals.node.Crowds(principal, bytesOfSpan)
	if !runs && !s.crowdsByEpochs(a.Session, st, a.Epoch) {
		return nil
	}
	return s.remembersTooMuch(a.Session)
}

// crowdsByEpochs reports whether a session in state st that begins an epoch would remember too
// many past epochs, because the sessions of its principal remember more than their share. Past
// epochs may take as much memory as the spans that a session may always remember.
func (s *pipeline) crowdsByEpochs(id record.SessionID, st standing, epoch record.Epoch) bool {
	principal := id.Principal()
	if principal == 0 || s.principals.node == nil || epoch <= st.epoch || st.next == 0 {
		return false
	}
	lives := 0
	if c := s.table.sessions.get(id); c != nil {
		lives = len(c.past)
	}
	if v := s.views[id]; v != nil {
		lives += v.past.len()
	}
	// At the limit the oldest is forgotten instead.
	return lives < s.table.limits.PastEpochs && (lives+1)*bytesOfLife > s.table.limits.LeastSpans*bytesOfSpan && s.principals.node.Crowds(principal, bytesOfLife)
}

func (s *pipeline) remembersTooMuch(id record.SessionID) *record.Refusal {
	return record.Refuse(record.Busy,
		"the caller's sessions use more of the node's memory for sessions than its share (%d bytes in this log): let the low-water mark of its appends follow their answers, close unused sessions, or try again when some have ended", s.principals.bytes[id.Principal()])
}

// refuseOpening refuses a new session if the log, the node or the share of its principal has no
// room for it.
func (s *pipeline) refuseOpening(id record.SessionID) *record.Refusal {
	left := MaxOpenSessions - s.log.sessions
	principal := id.Principal()
	own := s.principals.open[principal]
	switch {
	case left <= 0:
		return record.Refuse(record.Busy, "%d sessions are open in this log, the limit", MaxOpenSessions)
	case s.left == MemoryUsedUp:
		return noMemoryForSessions()
	case principal == 0:
		return nil
	case own >= left:
		return s.principals.refuse(principal,
			"the caller has %d open sessions in this log, and the remaining %d are reserved for others: close unused sessions, or try again when some have ended", own, left)
	case s.principals.node != nil && s.principals.node.Crowds(principal, bytesOfSession):
		return s.principals.refuse(principal,
			"the caller's sessions, %d of them open in this log, use more of the node's memory for sessions than its share: close unused sessions, and try again; a closed session counts for 5 more minutes", own)
	}
	return nil
}

// refuse refuses a session to a principal that has its share.
func (p *principals) refuse(principal uint32, format string, args ...any) *record.Refusal {
	p.crowding = principal
	refusal := record.Refuse(record.Busy, format, args...)
	refusal.OwnShare = true
	return refusal
}

// crowds returns the principals whose sessions take more of the node's memory than is left to
// others.
func (p *principals) crowds() map[uint32]bool {
	if p.node == nil {
		return nil
	}
	var all map[uint32]bool
	for principal := range p.bytes {
		if p.node.Crowds(principal, bytesOfSession) {
			if all == nil {
				all = map[uint32]bool{}
			}
			all[principal] = true
		}
	}
	return all
}

// crowded reports whether the principal that was last refused because of its share still could
// not open the given number of sessions.
func (s *pipeline) crowded(more int) bool {
	p := &s.principals
	return p.open[p.crowding]+more > MaxOpenSessions-s.log.sessions || p.node != nil && p.node.Crowds(p.crowding, bytesOfSession)
}

// turn opens or ends the session of a change. An opened session counts here until the table has
// it, an ended one until it is forgotten.
func (s *pipeline) turn(c *change, open bool) {
	c.view.open, c.turns = open, true
	by := 1
	if open {
		s.principals.takes(c.view.id, bytesOfSession)
	} else {
		by = -1
	}
	s.log.sessions += by
	s.principals.changed(c.view.id, by)
}

// turnBack undoes turn for the counts of principals; the count of the log is restored as a whole.
func (s *pipeline) turnBack(c *change) {
	if !c.turns {
		return
	}
	by := 1
	if !c.before.open {
		by = -1
		s.principals.takes(c.view.id, -bytesOfSession)
	}
	s.principals.changed(c.view.id, by)
}
