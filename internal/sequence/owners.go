package sequence

import "strandline.dev/internal/record"

// owners counts the open sessions of principals, those in flight too, so that none takes the places of all
// others. It is the leader's own, as leases are, and not in any entry.
type owners struct {
	open map[uint32]int // by record.SessionID.Owner; nil while the sequencer does not lead
	node NodeOwners     // nil: other logs do not count
	// crowding is the owner that was refused its share last: its silent producers make room, see eviction.
	crowding uint32
}

// NodeOwners counts the open sessions of principals in all logs that a node leads.
type NodeOwners interface {
	// Changed adds so many open sessions to those of an owner, or takes them away.
	Changed(owner uint32, by int)
	// Crowds reports whether an owner that opens one more, each of so many bytes, would have more than is
	// left for all others.
	Crowds(owner uint32, each int64) bool
}

// CountOwners has the sequencer count in a node what it counts. It comes before the sequencer leads.
func (s *pipeline) CountOwners(n NodeOwners) { s.owners.node = n }

// changed counts a session that opened (1) or ended (-1). Sessions of nobody are not counted: there are
// none where rights are enforced, and all are where they are not.
func (o *owners) changed(id record.SessionID, by int) {
	owner := id.Owner()
	if owner == 0 || o.open == nil {
		return
	}
	if o.open[owner] += by; o.open[owner] == 0 {
		delete(o.open, owner)
	}
	if o.node != nil {
		o.node.Changed(owner, by)
	}
	if owner == o.crowding && o.open[owner] == 0 {
		o.crowding = 0
	}
}

// start counts what a table has.
func (o *owners) start(t *Table) {
	o.stop()
	o.open = map[uint32]int{}
	t.sessions.byID.Scan(func(id record.SessionID, s *session) bool {
		if s.open {
			o.changed(id, 1)
		}
		return true
	})
}

// stop takes back what was counted.
func (o *owners) stop() {
	if o.node != nil {
		for owner, open := range o.open {
			o.node.Changed(owner, -open)
		}
	}
	o.open, o.crowding = nil, 0
}

// refuseOpening refuses a new session that the log, the node or the share of its principal has no room for.
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
		s.owners.crowding = owner
		return record.Refuse(record.Busy,
			"the caller has %d open sessions in this log, and there is room for %d more, which is left to others: close sessions that are not used, or try again when some have ended", own, left)
	case s.owners.node != nil && s.owners.node.Crowds(owner, bytesOfSession):
		s.owners.crowding = owner
		return record.Refuse(record.Busy,
			"the caller's open sessions, %d of them in this log, take more of the node's memory for sessions than is left to others: close sessions that are not used, or try again when some have ended", own)
	}
	return nil
}

// crowded reports whether the principal that was refused its share last could still not open so many sessions.
func (s *pipeline) crowded(more int) bool {
	o := &s.owners
	return o.open[o.crowding]+more > MaxOpenSessions-s.log.sessions || o.node != nil && o.node.Crowds(o.crowding, bytesOfSession)
}

// turn opens or ends the session of a change.
func (s *pipeline) turn(c *change, open bool) {
	c.view.open, c.turns = open, true
	by := 1
	if !open {
		by = -1
	}
	s.log.sessions += by
	s.owners.changed(c.view.id, by)
}

// turnBack undoes turn for the owners; the log's count is undone as a whole.
func (s *pipeline) turnBack(c *change) {
	if !c.turns {
		return
	}
	by := 1
	if !c.before.open {
		by = -1
	}
	s.owners.changed(c.view.id, by)
}
