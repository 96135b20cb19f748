package guard

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// connections holds the open connections, and for each port the number of those of each principal.
type connections struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*connected
	held map[holding]int
}

// holding is the key by which connections are counted; an empty principal stands for all principals.
// A connection without authentication is not counted: ports close those for others, so they
// take no principal's share.
type holding struct{ port, principal string }

// Connection is one connection of a client with this node.
type Connection struct {
	ID   uint64
	Port string // grpc, kafka or http
	// Principal is the newest principal that authenticated on the connection, or empty.
	Principal string
	From      string // with its port
	Since     time.Time
}

// connected is a connection, and the principal that authenticated on it.
type connected struct {
	Connection
	end func()
	// by are the last keptCallers that authenticated, the newest last. A proxy's connection has many.
	by []*Holder
	// newest is the last one in by. It is read without mu.
	newest atomic.Pointer[Holder]
	// inUse is the latest check at which it had an open stream of an authenticated caller.
	inUse time.Time
	// doubted is the time since when no caller in by is believed, nor that of an open stream. It is zero if
	// one is, or if by is empty.
	doubted time.Time
	// last is the time at which its streams ended, because doubted was farewellTime ago; zero before.
	last time.Time
}

// keptCallers is the number of callers that are remembered for a connection.
const keptCallers = 4

// An administrator who takes something away expects that it ends within a second. A node hears of the
// change within 0.3 s, and notices at its next look, after up to lookEvery. The fourth look from there ends
// the streams, and the fifth the connections: 0.9 s together. believed_test.go of the server measures it.
const (
	// farewellTime is how long streams stay open after their caller is no longer believed. In this time
	// requests that came before are answered and new ones are refused, and the caller may authenticate
	// again. The fourth look is past it even if it comes a little early.
	farewellTime = 3*lookEvery + lookEvery/2
	// answerTime is how long a connection stays open after its streams have ended, so that the client
	// receives why. The next look is past it, unless it comes right behind a late one.
	answerTime = lookEvery / 2
)

// Connected counts a connection with a port of limited size until left is called. end must close
// the connection without waiting. The guard calls it for an administrator, and after none of the last
// callers of the connection is believed, nor that of an open stream. proved must be called for each call whose caller has
// authenticated; it refuses a principal with more connections than its share, retryably.
func (g *Guard) Connected(port string, most int, from net.Addr, end func()) (proved func(context.Context) error, left func()) {
	all := &g.connections
	all.mu.Lock()
	defer all.mu.Unlock()
	all.last++
	c := &connected{Connection: Connection{ID: all.last, Port: port, From: from.String(), Since: time.Now()}, end: end}
	all.open[c.ID] = c
	return func(ctx context.Context) error {
		rules, _ := g.node.Rules()
		return all.proved(c, most, CallerOf(ctx), rules)
	}, func() { all.left(c) }
}

func (cs *connections) proved(c *connected, most int, by verbs.Caller, rules *access.Rules) error {
	h, _ := by.By.(*Holder)
	if h == nil || h.Principal == "" {
		return nil
	}
	h.connection.Store(c)
	if last := c.newest.Load(); last != nil && last.same(h) {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open[c.ID] == nil {
		return nil
	}
	if c.Principal != h.Principal {
		if err := cs.move(c, most, h, rules); err != nil {
			return err
		}
	}
	c.keep(h)
	return nil
}

// move counts a connection for the principal of h instead of the previous one. mu must be held.
func (cs *connections) move(c *connected, most int, h *Holder, rules *access.Rules) error {
	at, ofPort := holding{c.Port, h.Principal}, holding{port: c.Port}
	others := cs.held[ofPort]
	if c.Principal != "" {
		others--
	}
	// Where rights are not enforced, addresses have shares, and principals none.
	if left := most - others; rules.Enforced && cs.held[at] >= left {
		return record.Refuse(record.Busy,
			"%s has %d connections with the %s port of this node, and the remaining %d are reserved for others: close unused ones, then try again", h.Principal, cs.held[at], c.Port, left)
	}
	if quota, of := limitOn(rules, h.Principal, Connections); quota > 0 {
		if all := cs.byPrincipal()[h.Principal]; all >= quota {
			return record.Refuse(record.Busy,
				"%s has %d connections with this node, as many as the quota of %s allows: close unused ones, then try again", h.Principal, all, of)
		}
	}
	cs.leave(c)
	c.Principal = h.Principal
	cs.held[at]++
	cs.held[ofPort]++
	return nil
}

// keep makes h the newest of the remembered callers.
func (c *connected) keep(h *Holder) {
	kept := h.withoutDecisions()
	c.by = append(slices.DeleteFunc(c.by, kept.same), kept)
	if len(c.by) > keptCallers {
		c.by = slices.Delete(c.by, 0, 1)
	}
	c.newest.Store(kept)
}

// byPrincipal returns how many connections each principal has with all ports. mu must be held.
func (cs *connections) byPrincipal() map[string]int {
	all := map[string]int{}
	for of, n := range cs.held {
		if of.principal != "" {
			all[of.principal] += n
		}
	}
	return all
}

// unbelieved returns the functions that close the connections of which no remembered caller was
// believed for farewellTime, answerTime after their streams ended. It returns each of them once.
func (cs *connections) unbelieved(believed func(*Holder) bool, now time.Time) (ends []func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.open {
		switch {
		case len(c.by) == 0 || c.inUse.Equal(now) || slices.ContainsFunc(c.by, believed):
			c.doubted, c.last = time.Time{}, time.Time{}
		case c.doubted.IsZero():
			c.doubted = now
		case now.Sub(c.doubted) < farewellTime:
		case c.last.IsZero():
			c.last = now
		case now.Sub(c.last) >= answerTime:
			ends = append(ends, c.end)
			c.by = nil
		}
	}
	return ends
}

func (cs *connections) left(c *connected) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open[c.ID] == nil {
		return
	}
	delete(cs.open, c.ID)
	cs.leave(c)
}

// leave counts a connection no longer for its principal, if it has one. The caller holds mu.
func (cs *connections) leave(c *connected) {
	if c.Principal == "" {
		return
	}
	for _, at := range []holding{{c.Port, c.Principal}, {port: c.Port}} {
		if cs.held[at]--; cs.held[at] == 0 {
			delete(cs.held, at)
		}
	}
}

// ListConnections returns the connections of clients with this node, by id, and the name of the
// node.
func (g *Guard) ListConnections(_ context.Context, c verbs.Caller) (all []Connection, at string, err error) {
	all, err = call(g, &c, ListConnections, "", func() ([]Connection, error) { return g.connections.list(), nil })
	if err != nil {
		return nil, "", err
	}
	return all, g.node.Name(), nil
}

func (cs *connections) list() (all []Connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, one := range cs.open {
		all = append(all, one.Connection)
	}
	slices.SortFunc(all, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// CloseConnections closes the connection with an id, or with id 0 all connections of a principal,
// and returns their number.
func (g *Guard) CloseConnections(_ context.Context, c verbs.Caller, id uint64, principal string) (closed int, err error) {
	if refusal := g.may(&c, CloseConnections, ""); refusal != nil {
		return 0, refusal
	}
	name := principal
	if id != 0 {
		name = strconv.FormatUint(id, 10)
	}
	if closed, err = g.connections.close(id, principal); err == nil && closed == 0 && id != 0 {
		err = record.Refuse(record.Invalid, "node %s has no connection %d", g.node.Name(), id)
	}
	g.record(&c, CloseConnections.Name, triedAs("connection", name), err)
	return closed, err
}

func (cs *connections) close(id uint64, principal string) (closed int, err error) {
	if id == 0 && principal == "" {
		return 0, record.Refuse(record.Invalid, "give the id of the connection to close, or a principal")
	}
	cs.mu.Lock()
	var ends []func()
	for _, one := range cs.open {
		if one.ID == id || id == 0 && one.Principal == principal {
			ends = append(ends, one.end)
		}
	}
	cs.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return len(ends), nil
}
