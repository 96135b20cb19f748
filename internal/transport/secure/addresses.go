package secure

import (
	"net"
	"net/netip"
	"sync"
)

// addresses counts the connections of a port, in all and of each address. An address of
// IPv6 is its first 64 bits: a client has all of the others. This machine may hold as
// many as there may be in all.
type addresses struct {
	most, mostOfEach int // 0: any number

	mu     sync.Mutex
	open   int
	ofEach map[netip.Prefix]int
}

// enter counts a connection and returns what ends its count. False: there are too many.
func (a *addresses) enter(from netip.Prefix) (leave func(), entered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most > 0 && a.open >= a.most || a.mostOfEach > 0 && from.IsValid() && a.ofEach[from] >= a.mostOfEach {
		return nil, false
	}
	a.open++
	a.ofEach[from]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
		if a.ofEach[from]--; a.ofEach[from] == 0 {
			delete(a.ofEach, from)
		}
	}, true
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
