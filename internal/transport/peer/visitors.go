package peer

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
)

// visitors are incoming connections that are in their handshake or only ask, by who is at
// the other side.
type visitors struct {
	mu  sync.Mutex
	all int
	of  map[string]*list.List // of *visitor, the oldest first
}

// visitor is one of them.
type visitor struct {
	conn  net.Conn
	from  string
	place *list.Element // nil: it has left
}

// enter takes in a connection. It takes the place of another one if there are too many.
func (v *visitors) enter(conn net.Conn, from string) *visitor {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all >= maxVisitors {
		v.evict()
	}
	if v.of == nil {
		v.of = map[string]*list.List{}
	}
	if v.of[from] == nil {
		v.of[from] = list.New()
	}
	one := &visitor{conn: conn, from: from}
	one.place = v.of[from].PushBack(one)
	v.all++
	return one
}

// leave does nothing for one that was evicted.
func (v *visitors) leave(one *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(one)
}

// evict closes the oldest connection of those who have most. A handshake takes a round trip
// or two: of whoever is there too often, the oldest one does not go on. The caller holds mu.
func (v *visitors) evict() {
	var most *list.List
	for _, of := range v.of {
		if most == nil || of.Len() > most.Len() {
			most = of
		}
	}
	one := most.Front().Value.(*visitor)
	v.remove(one)
	closeNow(one.conn)
}

// remove is called with mu held.
func (v *visitors) remove(one *visitor) {
	if one.place == nil {
		return
	}
	of := v.of[one.from]
	of.Remove(one.place)
	one.place = nil
	if of.Len() == 0 {
		delete(v.of, one.from)
	}
	v.all--
}

// closeNow closes a connection without the farewell of TLS, for which one waits where the other
// side does not read.
func closeNow(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	_ = conn.Close()
}

// whereabouts is what a connection counts as that proves nothing: its address, and of IPv6
// the first 64 bits, as a client has all of the others.
func whereabouts(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if ip = ip.Unmap().WithZone(""); err != nil || ip.Is4() {
		return host
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
