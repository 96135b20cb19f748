package sequence

import (
	"sort"

	"strandline.dev/internal/record"
)

// view is a session as if everything in flight had committed. It exists while changes of the
// session are in flight; otherwise the table has the same state. It holds only what the table
// does not have yet.
type view struct {
	standing
	id    record.SessionID
	spans queue[proposedSpan]
	past  queue[pastEpoch] // epochs with records whose end is in flight
	// changes is the number of changes in flight that refer to this view; at 0 it is removed.
	changes int
}

// proposedSpan is the span of a batch in flight.
type proposedSpan struct {
	span
	epoch  record.Epoch
	number uint64
}

// pastEpoch is an epoch that ends at next.
type pastEpoch struct {
	epoch record.Epoch
	next  record.Sequence
}

// change is one step of a proposal on a session: everything needed to undo it, or to leave it to
// the table.
type change struct {
	view   *view
	before standing
	span   bool // a span was pushed
	past   bool // a past epoch was pushed
	turns  bool // the session opened or ended
}

// find returns the batch in flight that contains the sequence, or nil. The search begins with the
// newest, which is nearly always the right one.
func (v *view) find(epoch record.Epoch, sequence record.Sequence) *proposedSpan {
	for i := v.spans.len() - 1; i >= 0; i-- {
		p := v.spans.at(i)
		if p.epoch == epoch && p.first <= sequence && sequence < p.end() {
			return p
		}
	}
	return nil
}

// began returns the first epoch of a session that is wholly in flight. An implicit session begins
// in any epoch, and may have existed before and been forgotten.
func (v *view) began() record.Epoch {
	switch {
	case !v.implicit:
		return 0
	case v.past.len() > 0:
		return v.past.at(0).epoch
	}
	return v.epoch
}

// overlay is a log as if everything in flight had committed: its table, and the changes in
// flight.
type overlay struct {
	table      *Table
	log        logState // after the newest proposal
	views      map[record.SessionID]*view
	spareViews []*view // memory to be reused
}

// session returns the state of a session including everything in flight. known is false if
// neither the table nor a proposal has it.
func (s *overlay) session(id record.SessionID) (st standing, known bool) {
	if v := s.views[id]; v != nil {
		return v.standing, true
	}
	if c := s.table.sessions.get(id); c != nil {
		return c.standing, true
	}
	return standing{}, false
}

// boundary returns the first sequence of an epoch that is neither in the log nor in flight, for a
// session in state st.
func (s *overlay) boundary(id record.SessionID, st standing, epoch record.Epoch) (next record.Sequence, known bool) {
	switch {
	case epoch == st.epoch:
		return st.next, true
	case epoch > st.epoch:
		return 0, true
	}
	if v := s.views[id]; v != nil {
		for i := range v.past.len() {
			if p := v.past.at(i); p.epoch == epoch {
				return p.next, true
			}
		}
	}
	if c := s.table.sessions.get(id); c != nil {
		return c.boundary(epoch)
	}
	return 0, false
}

// locate adds the offsets of the records [first, first+count) of an epoch to the answer, in the
// log or in flight. It returns false and leaves the answer unchanged if one of them is forgotten.
func (s *overlay) locate(answer *Answer, id record.SessionID, epoch record.Epoch, first record.Sequence, count uint32) bool {
	committed, v := s.table.sessions.get(id), s.views[id]
	before := *answer
	for count > 0 {
		var p span
		found := false
		if committed != nil {
			p, found = committed.find(epoch, first)
		}
		if !found && v != nil {
			if proposed := v.find(epoch, first); proposed != nil {
				p, found = proposed.span, true
				answer.RestsOn = max(answer.RestsOn, proposed.number)
			}
		}
		if !found {
			*answer = before
			return false
		}
		n := uint32(min(uint64(count), uint64(p.end()-first)))
		answer.add(p.at(first), n)
		first += record.Sequence(n)
		count -= n
	}
	return true
}

// change begins a change of a session by the proposal d. st is the state of the session before;
// the caller sets the state after.
func (s *overlay) change(d *proposal, id record.SessionID, st standing) *change {
	v := s.views[id]
	if v == nil {
		if n := len(s.spareViews); n > 0 {
			v, s.spareViews = s.spareViews[n-1], s.spareViews[:n-1]
		} else {
			v = new(view)
		}
		v.id, v.standing = id, st
		s.views[id] = v
	}
	v.changes++
	d.changes = append(d.changes, change{view: v, before: v.standing})
	return &d.changes[len(d.changes)-1]
}

// beginEpoch moves the session to a higher epoch.
func (c *change) beginEpoch(epoch record.Epoch) {
	v := c.view
	if v.next > 0 {
		v.past.pushBack(pastEpoch{epoch: v.epoch, next: v.next})
		c.past = true
	}
	v.epoch, v.next = epoch, 0
}

// take adds a batch to the session's current epoch.
func (c *change) take(count uint32, offset record.Offset, number uint64) {
	v := c.view
	v.spans.pushBack(proposedSpan{
		span:   span{first: v.next, count: uint64(count), offset: offset},
		epoch:  v.epoch,
		number: number,
	})
	v.next += record.Sequence(count)
	c.span = true
}

// release drops one change's reference to a view.
func (s *overlay) release(v *view) {
	v.changes--
	if v.changes == 0 {
		delete(s.views, v.id)
		s.spareViews = append(s.spareViews, v)
	}
}

// Resolve returns the outcome of a sequence, including those in flight. Every outcome but Pending
// rests on committed entries alone.
func (s *overlay) Resolve(id record.SessionID, epoch record.Epoch, sequence record.Sequence) Outcome {
	outcome := s.table.Resolve(id, epoch, sequence)
	v := s.views[id]
	if v == nil {
		return outcome
	}
	if s.table.sessions.get(id) == nil && epoch >= v.began() {
		outcome.State = NotNow // the session itself is in flight
	}
	if outcome.State == NotNow && v.find(epoch, sequence) != nil {
		outcome.State = Pending
	}
	return outcome
}

// Epoch returns the session's newest epoch, including what is in flight, and 0 for an unknown
// session.
func (s *overlay) Epoch(id record.SessionID) record.Epoch {
	st, _ := s.session(id)
	return st.epoch
}

// remembers returns how many spans the session of an append remembers above the low-water mark in
// the append. Few spans are returned without regard to the mark.
func (s *overlay) remembers(a *Append) int {
	c := s.table.sessions.get(a.Session)
	switch {
	case c == nil:
		return 0
	case a.Epoch != c.epoch || c.remember <= s.table.limits.LeastSpans:
		return c.remember
	}
	return c.remember - sort.Search(c.spans.len(), func(i int) bool { return c.spans.at(i).end() > a.LowWater })
}
