package sequence

import "strandline.dev/internal/record"

// owners counts the open sessions of principals, including those in flight, and the memory of all
// that the log knows about them, so that no principal takes the places of all others. Like
// leases, it exists on the leader only and is not in any entry.
type owners struct {
	table *Table           // nil while the sequencer does not lead
	open  map[uint32]int   // by record.SessionID.Owner
	bytes map[uint32]int64 // of sessions that are open, in flight or ended, with what they remember
	node  NodeOwners       // nil: other logs are not counted
	// crowding is the owner that was last refused because of its share: its silent producers make
	// room, see eviction.
	crowding uint32
}

// NodeOwners counts the memory of the sessions of principals in all logs that a node leads.
type NodeOwners interface {
	// Changed adds by, which may be negative, to the bytes of an owner.
	Changed(owner uint32, by int64)
	// Crowds reports whether an owner with more additional bytes would have too large a share.
	Crowds(owner uint32, more int64) bool
}

// CountOwners makes the sequencer report its counts to a node. It must be called before the
// sequencer leads.
func (s *pipeline) CountOwners(n NodeOwners) { s.owners.node = n }

// changed counts a session that opened (1) or ended (-1). Sessions without an owner are not
// counted: there are none if rights are enforced, and only such ones otherwise.
func (o *owners) changed(id record.SessionID, by int) {
	owner := id.Owner()
	if owner == 0 || o.table == nil {
		return
	}
	if o.open[owner] += by; o.open[owner] == 0 {
		delete(o.open, owner)
	}
	if owner == o.crowding && o.open[owner] == 0 {
		o.crowding = 0
	}
}

// takes adds bytes to the memory of a session.
func (o *owners) takes(id record.SessionID, bytes int) {
	owner := id.Owner()
	if owner == 0 || bytes == 0 || o.table == nil {
		return
	}
	if o.bytes[owner] += int64(bytes); o.bytes[owner] == 0 {
		delete(o.bytes, owner)
	}
	if o.node != nil {
		o.node.Changed(owner, int64(bytes))
	}
}

// start counts the sessions of a table, and follows its changes from then on.
func (o *owners) start(t *Table) {
	o.stop()
	o.table, o.open, o.bytes = t, map[uint32]int{}, map[uint32]int64{}
	t.sessions.byID.Scan(func(id record.SessionID, s *session) bool {
		if s.open {
			o.changed(id, 1)
		}
		o.takes(id, bytesOfSession+bytesRemembered(s.remember, len(s.past)))
		return true
	})
	t.sessions.takes = o.takes
}

// stop takes all counts back.
func (o *owners) stop() {
	if o.table != nil {
		o.table.sessions.takes = nil
	}
	if o.node != nil {
		for owner, bytes := range o.bytes {
			o.node.Changed(owner, -bytes)
		}
	}
	o.table, o.open, o.bytes, o.crowding = nil, nil, nil, 0
}

// refuseRemembering refuses an append to a session that remembers much, if the sessions of its
// principal remember more than their share.
func (s *pipeline) refuseRemembering(a *Append, st standing) *record.Refusal {
	owner := a.Session.Owner()
	runs := owner != 0 && s.owners.node != nil && s.remembers(a) > s.table.limits.LeastSpans && s.owners.node.Crowds(owner, bytesOfSpan)
	if !runs && !s.crowdsByEpochs(a.Session, st, a.Epoch) {
		return nil
	}
	return s.remembersTooMuch(a.Session)
}

// crowdsByEpochs reports whether a session in state st that begins an epoch would remember too
// many past epochs, because the sessions of its principal remember more than their share. Past
// epochs may take as much memory as the spans that a session may always remember.
func (s *pipeline) crowdsByEpochs(id record.SessionID, st standing, epoch record.Epoch) bool {
	owner := id.Owner()
	if owner == 0 || s.owners.node == nil || epoch <= st.epoch || st.next == 0 {
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
	return lives < s.table.limits.PastEpochs && (lives+1)*bytesOfLife > s.table.limits.LeastSpans*bytesOfSpan && s.owners.node.Crowds(owner, bytesOfLife)
}

func (s *pipeline) remembersTooMuch(id record.SessionID) *record.Refusal {
	return record.Refuse(record.Busy,
		"what the caller's sessions remember (%d bytes in this log) takes more of the node's memory for sessions than is left to others: let the low-water mark of its appends follow their answers, close sessions that are not used, or try again when some have ended", s.owners.bytes[id.Owner()])
}

// refuseOpening refuses a new session if the log, the node or the share of its principal has no
// room for it.
func (s *pipeline) refuseOpening(id record.SessionID) *record.Refusal {
	left := MaxOpenSessions - s.log.sessions
	owner := id.Owner()
	own := s.owners.open[owner]
	switch {
	case left <= 0:
		return record.Refuse(record.Busy, "%d sessions are open, which is the limit", MaxOpenSessions)
	case s.left == MemoryUsedUp:
		return noMemoryForSessions()
	case owner == 0:
		return nil
	case own >= left:
		return s.owners.refuse(owner,
			"the caller has %d open sessions in this log, and there is room for %d more, which is left to others: close sessions that are not used, or try again when some have ended", own, left)
	case s.owners.node != nil && s.owners.node.Crowds(owner, bytesOfSession):
		return s.owners.refuse(owner,
			"the caller's sessions, %d of them open in this log, take more of the node's memory for sessions than is left to others: close sessions that are not used, and try again; one that has ended counts for 5 minutes more", own)
	}
	return nil
}

// refuse refuses a session to an owner that has its share.
func (o *owners) refuse(owner uint32, format string, args ...any) *record.Refusal {
	o.crowding = owner
	refusal := record.Refuse(record.Busy, format, args...)
	refusal.OwnShare = true
	return refusal
}

// crowds returns the principals whose sessions take more of the node's memory than is left to
// others.
func (o *owners) crowds() map[uint32]bool {
	if o.node == nil {
		return nil
	}
	var all map[uint32]bool
	for owner := range o.bytes {
		if o.node.Crowds(owner, bytesOfSession) {
			if all == nil {
				all = map[uint32]bool{}
			}
			all[owner] = true
		}
	}
	return all
}

// crowded reports whether the principal that was last refused because of its share still could
// not open the given number of sessions.
func (s *pipeline) crowded(more int) bool {
	o := &s.owners
	return o.open[o.crowding]+more > MaxOpenSessions-s.log.sessions || o.node != nil && o.node.Crowds(o.crowding, bytesOfSession)
}

// turn opens or ends the session of a change. An opened session counts here until the table has
// it, an ended one until it is forgotten.
func (s *pipeline) turn(c *change, open bool) {
	c.view.open, c.turns = open, true
	by := 1
	if open {
		s.owners.takes(c.view.id, bytesOfSession)
	} else {
		by = -1
	}
	s.log.sessions += by
	s.owners.changed(c.view.id, by)
}

// turnBack undoes turn for the owners; the count of the log is restored as a whole.
func (s *pipeline) turnBack(c *change) {
	if !c.turns {
		return
	}
	by := 1
	if !c.before.open {
		by = -1
		s.owners.takes(c.view.id, -bytesOfSession)
	}
	s.owners.changed(c.view.id, by)
}
