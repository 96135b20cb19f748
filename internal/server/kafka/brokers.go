package kafkaserver

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"strandline.dev/internal/node"
	"strandline.dev/internal/server/kafka/backend"
)

// brokers are the nodes of the cluster as one client finds them. A node's id is
// the broker's, its name the broker's rack: a client that calls a node's name
// its own rack reads from that node where it can.
type brokers struct {
	server *Server
	ctx    context.Context
	all    []broker
	self   int32
	// ids of nodes by the address of their gRPC port, and by name.
	byAddress, byName map[string]int32
}

// broker is one node that can be reached through its Kafka port.
type broker struct {
	id   int32
	host string
	port int32
	rack string
}

// brokers are those that this node knows of. One that has no address for
// clients, or is down, is left out: what it leads has no leader for them, what
// it holds is offline. This node is always among them, since the client has
// found it: where others say that it is, so that a client which asks several nodes
// sees one address, or else where it was found.
func (q *call) brokers() *brokers {
	members, self := q.connection.server.node.Members()
	b := &brokers{
		server: q.connection.server, ctx: q.connection.ctx, self: int32(self),
		byAddress: map[string]int32{}, byName: map[string]int32{},
	}
	for _, m := range members {
		b.byAddress[m.Address], b.byName[m.Name] = int32(m.ID), int32(m.ID)
		address := m.Kafka
		if m.ID == self {
			address = cmp.Or(q.connection.server.options.Advertise, m.Kafka, q.connection.conn.LocalAddr().String())
		}
		host, text, err := net.SplitHostPort(address)
		port, badPort := strconv.Atoi(text)
		if !m.Up || err != nil || badPort != nil {
			continue
		}
		b.all = append(b.all, broker{id: int32(m.ID), host: host, port: int32(port), rack: m.Name})
	}
	return b
}

// find returns a broker that can be reached.
func (b *brokers) find(id int32) (broker, bool) {
	for _, known := range b.all {
		if known.id == id {
			return known, true
		}
	}
	return broker{}, false
}

const noBroker = -1

// leader is the node that takes a log's appends, as far as is known here.
func (b *brokers) leader(l *node.Info) int32 {
	if id, ok := b.byAddress[l.Leader]; ok {
		return id
	}
	if l.LeaderTerm != 0 {
		return noBroker // the log is here, and has none at the moment
	}
	return b.elsewhere(l.Name)
}

// elsewhere asks the cluster who leads a log that this node does not hold.
func (b *brokers) elsewhere(log string) int32 {
	for _, l := range b.server.clusterStatus(b.ctx).Logs {
		if id, ok := b.byName[l.Leader]; ok && l.Name == log {
			return id
		}
	}
	return noBroker
}

// replicas are the nodes that hold a log, and those of them that can be reached.
func (b *brokers) replicas(l *node.Info) (all, up []int32) {
	for _, r := range l.Replicas {
		id, ok := b.byName[r.Node]
		if !ok {
			continue
		}
		all = append(all, id)
		if _, ok := b.find(id); ok {
			up = append(up, id)
		}
	}
	return all, up
}

// here: this node holds a replica of a log.
func (b *brokers) here(l *node.Info) bool {
	all, _ := b.replicas(l)
	return contains(all, b.self)
}

// clusterStatus is what all nodes told last. Asking them takes a while, longest
// where one does not answer, and clients ask for leaders all at once: one question
// is under way at a time, and who has an earlier answer does not wait for it long.
type clusterStatus struct {
	mu     sync.Mutex
	last   node.ClusterStatus
	when   time.Time     // of last; zero: there is none
	asking chan struct{} // closed when the question under way is answered; nil: none is
}

const (
	// statusKept is how long the answers of all nodes are taken for true.
	statusKept = time.Second
	// statusWait is how long a caller waits for newer ones. A node that is up
	// answers sooner.
	statusWait = 100 * time.Millisecond
)

// clusterStatus returns what is known, which is newer than statusKept if all nodes answer.
func (s *Server) clusterStatus(ctx context.Context) node.ClusterStatus {
	c := &s.status
	c.mu.Lock()
	known := !c.when.IsZero()
	if known && time.Since(c.when) <= statusKept {
		defer c.mu.Unlock()
		return c.last
	}
	if c.asking == nil {
		c.asking = make(chan struct{})
		s.running.Go(s.askStatus)
	}
	answered := c.asking
	c.mu.Unlock()
	if known {
		limited, cancel := context.WithTimeout(ctx, statusWait)
		defer cancel()
		ctx = limited
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// askStatus asks all nodes, for whoever wants to know.
func (s *Server) askStatus() {
	status, err := s.node.ClusterStatus(s.stopping, backend.System)
	c := &s.status
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && s.stopping.Err() == nil {
		c.last, c.when = status, time.Now()
	}
	close(c.asking)
	c.asking = nil
}
