package rpc

import (
	"container/list"
	"net"
	"sync"
	"time"

	"strandline.dev/internal/transport/secure"
)

const (
	// unprovedShare is the fraction of a port's connections that unauthenticated clients may have
	// if rights are enforced: one in unprovedShare.
	unprovedShare = 4
	// unprovedLeast is how long such a client may take to authenticate before a client of an
	// address with as many connections can get its place.
	unprovedLeast = time.Second
)

// Unproved are the connections of a port with unauthenticated clients, by address. If rights are
// enforced, authenticated clients do not wait for them to leave.
type Unproved struct {
	mu  sync.Mutex
	all int
	of  map[string]*list.List // of *unproved, the oldest first
}

// unproved is one of them.
type unproved struct {
	since time.Time
	end   func()
}

// Enter adds a connection, which end closes without waiting. left must be called when its client
// has authenticated or disconnected, and may be called repeatedly.
func (u *Unproved) Enter(from net.Addr, end func()) (left func()) {
	where := secure.Whereabouts(from)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]*list.List{}
	}
	if u.of[where] == nil {
		u.of[where] = list.New()
	}
	u.all++
	e := u.of[where].PushBack(&unproved{since: time.Now(), end: end})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(where, e)
	}
}

// remove does nothing for one that has left. The caller holds mu.
func (u *Unproved) remove(where string, e *list.Element) {
	of := u.of[where]
	if of == nil {
		return
	}
	before := of.Len()
	of.Remove(e)
	if of.Len() == before {
		return
	}
	u.all--
	if of.Len() == 0 {
		delete(u.of, where)
	}
}

// Crowded reports whether unauthenticated clients have their full share of a number of connections.
func (u *Unproved) Crowded(connections int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all >= max(1, connections/unprovedShare)
}

// MakeRoom closes the oldest connection of the address with the most connections, in favour of an
// address with fewer, or if its client had some time to authenticate. It reports whether it closed
// a connection.
func (u *Unproved) MakeRoom(from net.Addr) bool {
	to := secure.Whereabouts(from)
	u.mu.Lock()
	defer u.mu.Unlock()
	most, oldest := "", (*unproved)(nil)
	for where, of := range u.of {
		front := of.Front().Value.(*unproved)
		if oldest == nil || of.Len() > u.of[most].Len() || of.Len() == u.of[most].Len() && front.since.Before(oldest.since) {
			most, oldest = where, front
		}
	}
	if oldest == nil {
		return false
	}
	own := 0
	if of := u.of[to]; of != nil {
		own = of.Len()
	}
	if u.of[most].Len() <= own+1 && time.Since(oldest.since) < unprovedLeast {
		return false
	}
	u.remove(most, u.of[most].Front())
	oldest.end()
	return true
}
