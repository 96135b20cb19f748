package secure

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// addresses counts the connections of a port, in all and of each address. An address of
// IPv6 is its first 64 bits: a client has all of the others. This machine may hold as
// many as there may be in all.
type addresses struct {
	most, mostOfEach int // 0: any number
	// yields: where the port is full, the address with the most gives a connection up for one
	// that has fewer.
	yields bool

	mu     sync.Mutex
	open   int
	ofEach map[netip.Prefix]int
	oldest map[netip.Prefix]*list.List // of *place, where yields
}

// place is what a connection holds of a port that yields.
type place struct {
	closes net.Conn
	gone   bool
}

// enter counts a connection and returns what ends its count. False: there are too many.
func (a *addresses) enter(conn net.Conn, from netip.Prefix) (leave func(), entered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mostOfEach > 0 && from.IsValid() && a.ofEach[from] >= a.mostOfEach {
		return nil, false
	}
	if a.most > 0 && a.open >= a.most && !(a.yields && a.yield(from)) {
		return nil, false
	}
	a.open++
	a.ofEach[from]++
	if !a.yields {
		return func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.leave(from)
		}, true
	}
	if a.oldest == nil {
		a.oldest = map[netip.Prefix]*list.List{}
	}
	if a.oldest[from] == nil {
		a.oldest[from] = list.New()
	}
	p := &place{closes: conn}
	e := a.oldest[from].PushBack(p)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !p.gone {
			p.gone = true
			a.oldest[from].Remove(e)
			a.leave(from)
		}
	}, true
}

// leave ends the count of a connection. The caller holds mu.
func (a *addresses) leave(from netip.Prefix) {
	a.open--
	if a.ofEach[from]--; a.ofEach[from] == 0 {
		delete(a.ofEach, from)
		delete(a.oldest, from)
	}
}

// yield closes the oldest connection of the address with the most, if that has more than
// another one would have with its next. The caller holds mu.
func (a *addresses) yield(to netip.Prefix) bool {
	most := to
	for from, n := range a.ofEach {
		if n > a.ofEach[most] {
			most = from
		}
	}
	if a.ofEach[most] <= a.ofEach[to]+1 {
		return false
	}
	p := a.oldest[most].Remove(a.oldest[most].Front()).(*place)
	p.gone = true
	_ = p.closes.Close()
	a.leave(most)
	return true
}

// prefixOf returns what a remote address counts as. One of this machine, and one that is
// not of TCP, count as none, which is not valid.
func prefixOf(remote net.Addr) netip.Prefix {
	if tcp, ok := remote.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return netip.Prefix{}
	}
	return wherever(remote)
}

// wherever is prefixOf for addresses of this machine, too.
func wherever(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // the zero value fails
	return p
}

// Whereabouts names where a client connects from: its address, of IPv6 the network of 64 bits. What is divided
// among clients who have not proved who they are is divided by that.
func Whereabouts(remote net.Addr) string {
	if a, ok := unwrapped(remote).(addr); ok {
		remote = a.Addr
	}
	return wherever(remote).String()
}
