package secure

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// handshakes holds the handshakes in progress of a port, the oldest first.
type handshakes struct {
	mu     sync.Mutex
	closed bool
	all    list.List // of *handshake
	ofEach map[netip.Prefix]int
}

// handshake is one connection until its handshake ends.
type handshake struct {
	conn  net.Conn
	from  netip.Prefix // not valid: this machine
	waits waits
}

// waits is the reason why a handshake waits.
type waits int

const (
	forClient waits = iota
	forPace         // the time at which a slowed down address may begin it
	forNode
)

// enter adds a connection. If there are too many, it replaces another one. It returns nil if the
// new connection must be closed.
func (h *handshakes) enter(conn net.Conn, from netip.Prefix) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	full := from.IsValid() && h.ofEach[from] >= maxHandshakesOfAddress
	switch {
	case h.closed, full && !h.evict(from), !full && h.all.Len() >= maxHandshakes && !h.evict(h.busiest()):
		return nil
	}
	h.ofEach[from]++
	return h.all.PushBack(&handshake{conn: conn, from: from})
}

// busiest returns the address with the most handshakes. The caller holds mu.
func (h *handshakes) busiest() (most netip.Prefix) {
	for from, n := range h.ofEach {
		if n > h.ofEach[most] {
			most = from
		}
	}
	return most
}

// evict closes the oldest handshake of an address that waits for its client or, if there is none,
// the oldest that has not begun because the address is slowed down: otherwise a few such
// addresses could keep all others out. The caller holds mu.
func (h *handshakes) evict(from netip.Prefix) bool {
	for _, w := range []waits{forClient, forPace} {
		for e := h.all.Front(); e != nil; e = e.Next() {
			if shake := e.Value.(*handshake); shake.from == from && shake.waits == w {
				_ = shake.conn.Close()
				h.remove(e)
				return true
			}
		}
	}
	return false
}

// turn records the reason why a handshake waits.
func (h *handshakes) turn(e *list.Element, w waits) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Value.(*handshake).waits = w
}

func (h *handshakes) leave(e *list.Element) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(e)
}

// remove does nothing for one that was evicted. The caller holds mu.
func (h *handshakes) remove(e *list.Element) {
	before := h.all.Len()
	shake := h.all.Remove(e).(*handshake)
	if h.all.Len() == before {
		return
	}
	if h.ofEach[shake.from]--; h.ofEach[shake.from] == 0 {
		delete(h.ofEach, shake.from)
	}
}

// close ends all handshakes. After it, no connection can enter.
func (h *handshakes) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for e := h.all.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*handshake).conn.Close()
	}
}
