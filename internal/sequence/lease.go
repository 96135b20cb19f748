package sequence

import (
	"container/heap"
	"math"

	"strandline.dev/internal/record"
)

// expiry ends sessions, holds and the writer lease when their time has run out.
type expiry struct{ commands }

// NothingDue is the result of Due if nothing is due.
const NothingDue = math.MaxInt64

// leases records which sessions have been silent for too long. It counts the time of one leader,
// and is neither replicated nor undone: the ExpireSession command that follows ends a session.
type leases struct {
	elapsed int64 // as leader, up to the last call of Tick, or of Pass long after it
	last    int64 // time of that call
	ticked  int64 // elapsed at the last call of Tick
	byID    map[record.SessionID]*lease
	queue   leaseQueue // the leases in byID, and some that have ended
	// holds has the value of elapsed at the newest sign of life of each hold.
	holds map[string]int64
	// writer is the value of elapsed at the newest sign of life of the holder of the writer lease.
	writer int64
	eviction
}

// lease is the lease of one session. Renewing it sets renewed only, which costs almost nothing;
// its place in the queue is corrected when it reaches the front.
type lease struct {
	id       record.SessionID
	length   int64 // ms
	renewed  int64 // value of elapsed at the newest sign of life
	deadline int64 // value of elapsed at which to check again; never after renewed + length
}

// start gives every open session a full lease.
func (l *leases) start(t *Table, now int64) {
	*l = leases{last: now, byID: make(map[record.SessionID]*lease, t.log.sessions)}
	t.sessions.byID.Scan(func(id record.SessionID, _ *session) bool {
		l.follow(t, id)
		return true
	})
}

// follow begins or ends the lease of a session according to the table.
func (l *leases) follow(t *Table, id record.SessionID) {
	s := t.sessions.get(id)
	switch open := s != nil && s.open; {
	case open && l.byID[id] == nil:
		length := int64(s.lease)
		begun := &lease{id: id, length: length, renewed: l.elapsed, deadline: l.elapsed + length}
		l.byID[id] = begun
		heap.Push(&l.queue, begun)
	case !open:
		delete(l.byID, id)
	}
}

// renew records a sign of life at the last tick, or now if that was long ago, see Pass.
func (l *leases) renew(id record.SessionID) {
	if found := l.byID[id]; found != nil {
		found.renewed = max(found.renewed, l.elapsed)
	}
}

// step returns how much time a call at now adds to the last tick.
func (l *leases) step(now int64) int64 { return max(0, now-l.last) }

// pass advances the time to now.
func (l *leases) pass(now int64) {
	l.elapsed += l.step(now)
	l.last = max(l.last, now)
}

// Pass advances the time to now if the last tick is long ago, as in a log that is not used. It is to
// be called before requests, so that their signs of life count from now.
func (s expiry) Pass(now int64) {
	if s.leading && s.leases.step(now) > 2*TickMs {
		s.leases.pass(now)
	}
}

// Due returns when Expired, ExpiredHolds, ExpiredWriter or Forgettable may have a result after Tick,
// unless something is proposed or committed before; or NothingDue. It may be a time that has passed.
func (s expiry) Due() int64 {
	l, due := &s.leases, int64(NothingDue)
	if !s.leading {
		return due
	}
	if len(l.queue) > 0 {
		due = l.queue[0].deadline
	}
	for _, h := range s.table.Holds() {
		switch renewed, known := l.holds[h.Name]; {
		case h.Lease > 0 && known:
			due = min(due, renewed+int64(h.Lease))
		case h.Lease > 0:
			due = min(due, l.elapsed) // ExpiredHolds has to begin its lease
		}
	}
	if w := s.table.log.writer; w != nil {
		due = min(due, l.writer+int64(w.Lease))
	}
	if s.recent.kept {
		due = min(due, s.recent.used+keepKeysMs+1)
	}
	if s.table.sessions.byID.Len() > 0 {
		due = min(due, l.ticked+evictEveryMs) // memory may have become short
	}
	if due == NothingDue {
		return due
	}
	return l.last + due - l.elapsed
}

// Tick advances the time of leases to now, in milliseconds; the time in which the process is paused
// must not count. It is to be called every TickMs, and calls before Due may be left out.
func (s expiry) Tick(now int64) {
	s.leases.pass(now)
	s.leases.ticked = s.leases.elapsed
	if !s.memory.used {
		s.forgetMemory()
	}
	s.memory.used = false
	if s.recent.kept && s.leases.elapsed-s.recent.used > keepKeysMs {
		s.recent.forget()
	}
}

// KeepSession records a sign of life of a session. An append is one, too, whether it is accepted
// or not.
func (s expiry) KeepSession(id record.SessionID, now int64) Answer {
	if !s.leading {
		return Answer{Refusal: notLeader()}
	}
	st, known := s.session(id)
	switch {
	case !known:
		return s.refuse(sessionNotFound(id))
	case !st.open:
		return s.refuse(sessionExpired(id))
	}
	found := s.leases.byID[id]
	if found == nil {
		return Answer{RestsOn: s.newest()} // the command that opened it is in flight
	}
	found.renewed = max(found.renewed, s.leases.elapsed+s.leases.step(now))
	return Answer{}
}

// Expired returns sessions whose leases have run out, or that have to make room for others, and
// whose end is not in flight; at most a few hundred. Expire is due for each of them; until it is
// decided, the next call returns the session again.
func (s expiry) Expired() []record.SessionID {
	var expired []record.SessionID
	var due []*lease
	l := &s.leases
	for len(l.queue) > 0 && l.queue[0].deadline <= l.elapsed && len(expired) < maxExpiredAtOnce {
		next := heap.Pop(&l.queue).(*lease)
		if l.byID[next.id] != next {
			continue
		}
		if end := next.renewed + next.length; end > l.elapsed {
			next.deadline = end
			heap.Push(&l.queue, next)
			continue
		}
		due = append(due, next)
		if st, _ := s.session(next.id); st.open {
			expired = append(expired, next.id)
		}
	}
	for _, d := range due {
		heap.Push(&l.queue, d)
	}
	if room := maxExpiredAtOnce - len(expired); room > 0 {
		expired = append(expired, s.silent(room)...)
	}
	return expired
}

// Expire ends a session that Expired has returned. A session that has given an acknowledged sign
// of life since stays open.
func (s expiry) Expire(id record.SessionID) Answer {
	if l := s.leases.byID[id]; s.leading && l != nil && l.renewed+l.length > s.leases.elapsed && !s.inTheWay(l) {
		return s.unchanged()
	}
	return s.Command(record.Command{Kind: record.ExpireSession, Session: id})
}

// leaseQueue is a heap by deadline, and by id so that equal runs have equal results.
type leaseQueue []*lease

func (q leaseQueue) Len() int      { return len(q) }
func (q leaseQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q leaseQueue) Less(i, j int) bool {
	if q[i].deadline != q[j].deadline {
		return q[i].deadline < q[j].deadline
	}
	return q[i].id < q[j].id
}
func (q *leaseQueue) Push(item any) { *q = append(*q, item.(*lease)) }
func (q *leaseQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
