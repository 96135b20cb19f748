package peer

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// visitors are incoming connections that are in their handshake or for one call only, by the node at
// the other side.
type visitors struct {
	mu  sync.Mutex
	all int
	// waiting are those that wait for a turn, maxVisitors at most: beyond, they are closed at once.
	waiting int
	of      map[string]*sameVisitors
}

// sameVisitors are those with one node or address at the other side.
type sameVisitors struct {
	list.List // of *visitor, the oldest first
	// pace is how often one of them makes way for another one of them. Without it, whoever connects
	// again as soon as it is closed would keep a processor busy.
	pace *rate.Limiter
}

// visitor is one of them.
type visitor struct {
	conn  net.Conn
	from  string
	place *list.Element // nil: it has left
}

// enter takes in a connection. If there are too many, it takes the place of another one, and waits for its
// turn if that is one of its own kind: turnsOfVisitors in a second. It returns nil if its turn does not come
// within a time, or when ctx ends.
func (v *visitors) enter(ctx context.Context, conn net.Conn, from string, within time.Duration) *visitor {
	turn, ok := v.turn(from, within)
	came := wait(ctx, turn)
	v.mu.Lock()
	defer v.mu.Unlock()
	if turn > 0 {
		v.waiting--
	}
	if !came || !ok {
		return nil
	}
	if v.all >= maxVisitors {
		v.evict()
	}
	if v.of == nil {
		v.of = map[string]*sameVisitors{}
	}
	if v.of[from] == nil {
		v.of[from] = &sameVisitors{pace: rate.NewLimiter(turnsOfVisitors, 1)}
	}
	one := &visitor{conn: conn, from: from}
	one.place = v.of[from].PushBack(one)
	v.all++
	return one
}

// turn returns how long a connection has to wait for its turn. If it would be longer than within, it is
// within, and ok is false: what is closed at once comes again at once.
func (v *visitors) turn(from string, within time.Duration) (turn time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if own := v.of[from]; v.all >= maxVisitors && own != nil && own == v.most() {
		if v.waiting >= maxVisitors {
			return 0, false
		}
		reserved := own.pace.Reserve()
		turn, ok = reserved.Delay(), true
		if turn > within {
			reserved.Cancel()
			turn, ok = within, false
		}
		if turn > 0 {
			v.waiting++
		}
		return turn, ok
	}
	return turn, true
}

// wait reports whether a time has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// leave does nothing for one that was evicted.
func (v *visitors) leave(one *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(one)
}

// evict closes the oldest connection of the nodes that have most. A handshake takes a round trip
// or two: of whoever is there too often, the oldest one does not go on. The caller holds mu.
func (v *visitors) evict() {
	one := v.most().Front().Value.(*visitor)
	v.remove(one)
	closeNow(one.conn)
}

// most are those of whom there are most. The caller holds mu.
func (v *visitors) most() (most *sameVisitors) {
	for _, of := range v.of {
		if most == nil || of.Len() > most.Len() {
			most = of
		}
	}
	return most
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
