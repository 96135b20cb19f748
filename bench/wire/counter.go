// Package wire counts append requests as they pass a proxy: how many have no
// answer yet, and for how long each had none. It sees what really is on the
// wire, whatever a client library says about itself.
//
// Counter (counter.go) is the count; kafka.go, grpc.go and lean.go find the requests
// and answers in the bytes of a connection. conn.go counts without a proxy, above
// an encryption.
package wire

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// Protocol is what is spoken on a connection.
type Protocol uint8

const (
	// Kafka: Produce requests and their responses.
	Kafka Protocol = iota
	// Strandline: the messages of Append streams, in both directions, by gRPC or on
	// connections of their own.
	Strandline
)

// Counter counts over all connections of a proxy. It is safe for concurrent
// use.
type Counter struct {
	protocol Protocol

	mu          sync.Mutex
	connections map[uint64]*connection
	watched     uint64 // connections that Watch has numbered
	counts      Counts
	latency     *hdrhistogram.Histogram
	broken      error
}

// Counts is a look at a Counter.
type Counts struct {
	Requests int64 // that went up
	Answers  int64 // that came down
	InFlight int   // requests without an answer now, over all connections
	// Most is the highest number of requests without an answer that one
	// connection ever had.
	Most     int
	Up, Down int64 // bytes, of everything that passed
}

// NewCounter begins at nothing.
func NewCounter(p Protocol) *Counter {
	return &Counter{protocol: p, connections: map[uint64]*connection{}, latency: limit.NewHistogram()}
}

// connection is what is known of one connection. The dissectors call request
// and answer; key identifies a request.
type connection struct {
	counter  *Counter
	up, down dissector
	pending  map[uint64][]time.Time // oldest first
	inFlight int
}

// dissector finds messages in the bytes of one direction, however they are cut.
// An error means that they make no sense; it is not called again then.
type dissector interface {
	feed(data []byte) error
}

// Up takes bytes that go from the client to the server.
func (c *Counter) Up(id uint64, data []byte) { c.see(id, data, true) }

// Down takes bytes that go back.
func (c *Counter) Down(id uint64, data []byte) { c.see(id, data, false) }

func (c *Counter) see(id uint64, data []byte, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.connections[id]
	if conn == nil {
		conn = c.open()
		c.connections[id] = conn
	}
	way := conn.down
	if up {
		way = conn.up
		c.counts.Up += int64(len(data))
	} else {
		c.counts.Down += int64(len(data))
	}
	if c.broken == nil {
		c.broken = way.feed(data)
	}
}

func (c *Counter) open() *connection {
	conn := &connection{counter: c, pending: map[uint64][]time.Time{}}
	if c.protocol == Kafka {
		conn.up, conn.down = newKafka(conn)
	} else {
		conn.up, conn.down = newStrandline(conn)
	}
	return conn
}

// request is called with the counter's mutex held, and so is answer.
func (c *connection) request(key uint64) {
	c.pending[key] = append(c.pending[key], time.Now())
	c.inFlight++
	counts := &c.counter.counts
	counts.Requests++
	counts.InFlight++
	counts.Most = max(counts.Most, c.inFlight)
}

func (c *connection) answer(key uint64) {
	waiting := c.pending[key]
	if len(waiting) == 0 {
		return // of a request that is not counted
	}
	limit.Observe(c.counter.latency, time.Since(waiting[0]))
	if len(waiting) == 1 {
		delete(c.pending, key)
	} else {
		c.pending[key] = waiting[1:]
	}
	c.inFlight--
	c.counter.counts.InFlight--
	c.counter.counts.Answers++
}

// Counts is how things are. The error says that bytes made no sense, and that
// counting ended there.
func (c *Counter) Counts() (Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts, c.broken
}

// Latency is a copy of the latencies of requests up to now. A proxy that delays
// shows requests before their delay and answers after theirs, so both count.
func (c *Counter) Latency() *hdrhistogram.Histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hdrhistogram.Import(c.latency.Export())
}
