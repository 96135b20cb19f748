package secure

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// addresses counts the connections of a port, in all and for each address. The address of an IPv6
// client is its first 64 bits, since a client has all addresses of such a network. For this
// machine only the limit on all connections applies.
type addresses struct {
	most, mostOfEach int // 0: no limit
	// yields: where the port is full, the address with the most gives a connection up for one
	// that has fewer.
	yields bool

	mu     sync.Mutex
	open   int
	ofEach map[netip.Prefix]int
	oldest map[netip.Prefix]*list.List // of *place, where yields
}

// place is the place of a connection at a port that yields.
type place struct {
	closes net.Conn
	gone   bool
}

// enter counts a connection and returns the function that ends its count. It returns false if
// there are too many connections.
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

// yield closes the oldest connection of the address with the most connections, if that address
// has more than the address to would have with its next one. The caller holds mu.
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

// prefixOf returns the prefix under which a remote address is counted. It is the zero Prefix,
// which is not valid, for this machine and for addresses that are not TCP addresses.
func prefixOf(remote net.Addr) netip.Prefix {
	if tcp, ok := bare(remote).(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return netip.Prefix{}
	}
	return wherever(remote)
}

// bare returns an address without the connection.
func bare(remote net.Addr) net.Addr {
	if a, ok := remote.(plainAddr); ok {
		return a.Addr
	}
	return remote
}

// wherever is like prefixOf, but also returns a valid prefix for addresses of this machine.
func wherever(remote net.Addr) netip.Prefix {
	tcp, ok := bare(remote).(*net.TCPAddr)
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

// Whereabouts returns the name of the place that a client connects from: its address or, for
// IPv6, its network of 64 bits. Limits that are divided among unauthenticated clients are divided
// by place.
func Whereabouts(remote net.Addr) string {
	remote = unwrapped(remote)
	if a, ok := remote.(addr); ok {
		remote = a.Addr
	}
	return wherever(remote).String()
}
