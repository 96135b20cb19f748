package client

// SessionPosition is where a producer stands in its session: what a program
// keeps to go on with the session after a restart. docs/at-most-once.md has the
// recipe.
type SessionPosition struct {
	LogID   uint64 // id of the log that the session is of
	Session uint64 // 0: none
	Epoch   uint32
	// Next is the sequence of the next record to be accepted. Records get
	// sequences one after the other, in the order in which they are accepted; a
	// new epoch begins at 0.
	Next uint64
}

// Position is where the producer stands now. It moves with every record that is
// accepted; and to 0 in another epoch or session when a record fails, unless
// WithEndOnFailure is given.
func (p *Producer) Position() SessionPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.position(nil)
	if p.forming != nil {
		at.Next += uint64(p.forming.count)
	}
	return at
}

// position is that of the first record of a request that has not been sealed, or
// with nil, of what comes after the queue. It holds if nothing fails before the
// request is sealed; if something does, the request fails with it. The mutex is
// held.
func (p *Producer) position(r *request) SessionPosition {
	at := SessionPosition{LogID: p.logID, Session: p.session.ID, Epoch: p.session.Epoch, Next: p.next}
	for _, q := range p.queue {
		if q == r {
			break
		}
		at.Next += uint64(q.count)
	}
	return at
}

// place is where the record of an index stands in its session.
func (p *Producer) place(r *request, index int) SessionPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := SessionPosition{LogID: p.logID, Session: r.session, Epoch: r.epoch, Next: r.first}
	if !r.sealed {
		at = p.position(r)
	}
	at.Next += uint64(index)
	return at
}
