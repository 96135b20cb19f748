package sequence

import "strandline.dev/internal/record"

// view is a session as if everything in flight had committed. It exists while
// something of the session is in flight; before and after, the table tells the
// same. So a view holds only what the table does not have yet.
type view struct {
	standing
	id    record.SessionID
	spans queue[proposedSpan]
	past  queue[pastEpoch] // epochs that end in flight, of those that took records
	// changes counts the changes in flight that name this view; at 0 it goes.
	changes int
}

// proposedSpan is a batch in flight: where its records will be.
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

// change is one step of a proposal on a session: all it takes to undo it, or to
// leave it to the table.
type change struct {
	view   *view
	before standing
	span   bool // a span was pushed
	past   bool // a past epoch was pushed
	turns  bool // the session opened or ended
}

// find returns the batch in flight that holds the sequence, or nil. What is
// asked for was sent last, nearly always, so the search begins there.
func (v *view) find(epoch record.Epoch, sequence record.Sequence) *proposedSpan {
	for i := v.spans.len() - 1; i >= 0; i-- {
		p := v.spans.at(i)
		if p.epoch == epoch && p.first <= sequence && sequence < p.end() {
			return p
		}
	}
	return nil
}

// began is the first epoch of a session that is wholly in flight. An implicit
// one begins in any, and may have been there before and be forgotten.
func (v *view) began() record.Epoch {
	switch {
	case !v.implicit:
		return 0
	case v.past.len() > 0:
		return v.past.at(0).epoch
	}
	return v.epoch
}

// session tells where a session stands with everything in flight. known is
// false if neither the table nor a proposal has it.
func (s *Sequencer) session(id record.SessionID) (st standing, known bool) {
	if v := s.views[id]; v != nil {
		return v.standing, true
	}
	if c := s.table.sessions.get(id); c != nil {
		return c.standing, true
	}
	return standing{}, false
}

// boundary is the first sequence of an epoch that is neither in the log nor in
// number, for a session that stands at st.
func (s *Sequencer) boundary(id record.SessionID, st standing, epoch record.Epoch) (next record.Sequence, known bool) {
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

// locate adds to the answer where records [first, first+count) of an epoch
// are, in the log or in flight. It is false, and the answer as it was, if one
// of them is forgotten.
func (s *Sequencer) locate(answer *Answer, id record.SessionID, epoch record.Epoch, first record.Sequence, count uint32) bool {
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

// change begins a change of a session by the proposal d. The session stands at st
// before it, and the caller sets where it stands after it.
func (s *Sequencer) change(d *proposal, id record.SessionID, st standing) *change {
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

func (c *change) setOpen(open bool) {
	c.view.open = open
	c.turns = true
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

// take appends a batch to the session's current epoch.
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

// undo takes the newest proposal back: afterwards every decision is as if it had
// never been.
func (s *Sequencer) undo(d *proposal) {
	for i := len(d.changes) - 1; i >= 0; i-- {
		c := d.changes[i]
		c.view.standing = c.before
		if c.span {
			c.view.spans.popBack()
		}
		if c.past {
			c.view.past.popBack()
		}
		s.release(c.view)
	}
	s.log = d.before
	if d.sealed {
		s.chain, s.time = d.chain, d.time
	}
	s.memory.giveBack(d)
}

// retire takes the oldest proposal out of the overlay when the table has it.
func (s *Sequencer) retire(d *proposal) {
	for _, c := range d.changes {
		if c.span {
			c.view.spans.popFront()
		}
		if c.past {
			c.view.past.popFront()
		}
		if c.turns {
			s.leases.follow(s.table, c.view.id)
		}
		s.release(c.view)
	}
	s.memory.giveBack(d)
}

// release drops one change's hold on a view.
func (s *Sequencer) release(v *view) {
	v.changes--
	if v.changes == 0 {
		delete(s.views, v.id)
		s.spareViews = append(s.spareViews, v)
	}
}
