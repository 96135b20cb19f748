package kafkaserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/kafka/backend"
	"strandline.dev/internal/server/kafka/coordinator"
	"strandline.dev/internal/server/kafka/fetchsession"
	"strandline.dev/internal/server/kafka/readers"
	"strandline.dev/internal/server/kafka/topics"
	"strandline.dev/internal/server/rpc"
)

// Server is the Kafka port of a node.
type Server struct {
	node    backend.Node
	options Options
	logger  *slog.Logger

	// requests bounds the memory of Produce requests, polls that of Fetch, calls that
	// of all others, and fetches that of answers to Fetch.
	requests, polls, calls, fetches *budget.Pool
	inflating                       *rpc.Inflating
	readers                         *readers.Pool
	fetchSessions                   *fetchsession.Sessions
	groups                          *coordinator.Coordinator
	nodes                           *backend.Nodes
	topics                          topics.Topics
	metrics                         *metrics
	answers                         rpc.Flusher
	// unprovedLog limits log lines about clients that have not authenticated, and provedLog those
	// about others.
	unprovedLog, provedLog rate.Sometimes
	unproved               rpc.Unproved

	stopping context.Context
	stop     context.CancelFunc

	mu          sync.Mutex
	listeners   map[net.Listener]struct{}
	connections map[*connection]struct{}
	closed      bool
	atMax       bool // the limit of connections was reached and logged
	running     sync.WaitGroup
}

// Options of a Server. A zero value means the default named with the field.
type Options struct {
	MaxConnections int // default DefaultMaxConnections
	// Memory limits the memory of requests and answers. The default is DefaultMemory.
	Memory *budget.Memory
	// Advertise is the HOST:PORT of this node for clients. The default is the address that other
	// nodes return to them or, if they know none, the address to which each client has connected.
	Advertise string
	// AutoCreate creates a missing topic when a client requests it by name, unless the request
	// forbids it.
	AutoCreate bool
	// AutoPartitions is the number of partitions of topics created automatically or without a
	// number, up to topics.MaxPartitions. The default is 1.
	AutoPartitions int
	Logger         *slog.Logger
}

// New returns a server for n. It does nothing before Serve.
func New(n backend.Node, o Options) *Server {
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	o.AutoPartitions = min(max(o.AutoPartitions, 1), topics.MaxPartitions)
	if o.Memory == nil {
		o.Memory = budget.New(DefaultMemory)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{
		node: n, options: o, logger: o.Logger,
		requests: o.Memory.Appends, polls: o.Memory.Polls, calls: o.Memory.Calls, fetches: o.Memory.Fetches,
		inflating: rpc.NewInflating(o.Memory), fetchSessions: fetchsession.NewSessions(o.Memory.FetchSessions),
		readers:     readers.NewPool(n),
		unprovedLog: rate.Sometimes{Interval: logUnprovedEvery}, provedLog: rate.Sometimes{Interval: logUnprovedEvery},
		listeners: map[net.Listener]struct{}{}, connections: map[*connection]struct{}{},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	s.nodes = backend.NewNodes(n, o.Advertise, s.stopping, &s.running)
	s.groups = coordinator.New(n, o.Memory.Groups, s.logger, s.stopping, &s.running)
	s.topics = topics.Topics{
		AutoCreate: o.AutoCreate, Partitions: int32(o.AutoPartitions), MaxConnections: o.MaxConnections, MaxRequestBytes: MaxProduceBytes,
		Logger: s.logger, Unlisted: rate.Sometimes{Interval: logUnprovedEvery}, Readers: s.readers, Newest: readers.NewNewest(),
	}
	return s
}

// Groups coordinates consumer groups, for other ports too. If the Kafka port is not served, its
// time does not advance: there are no members, and expired offsets stay.
func (s *Server) Groups() *coordinator.Coordinator { return s.groups }

// Serve accepts connections until Stop is called, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners[l] = struct{}{}
	s.running.Go(func() { s.keepTime(s.stopping) })
	s.mu.Unlock()
	for {
		conn, err := l.Accept()
		if s.stopping.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				s.logger.Warn("cannot take a Kafka connection; trying again", "error", err)
				select {
				case <-time.After(100 * time.Millisecond):
				case <-s.stopping.Done():
				}
				continue
			}
			return err
		}
		s.take(conn)
	}
}

// take serves a connection, or closes it if there are too many.
func (s *Server) take(conn net.Conn) {
	if !s.admit(conn) {
		_ = conn.Close()
	}
}

// admit serves a connection and reports whether there is room for it.
func (s *Server) admit(conn net.Conn) bool {
	c := newConnection(s, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case !s.room(c):
		// Once each time the limit is reached, not for each refused client.
		if full := len(s.connections) >= s.options.MaxConnections; full && !s.atMax {
			s.logger.Warn("new Kafka connections are refused: the limit is reached", "limit", s.options.MaxConnections)
			s.atMax = true
		}
	default:
		s.connections[c] = struct{}{}
		c.enterUnproved()
		s.running.Go(func() {
			c.serve()
			c.leaveUnproved()
			s.mu.Lock()
			delete(s.connections, c)
			s.atMax = s.atMax && len(s.connections) >= s.options.MaxConnections-1
			s.mu.Unlock()
		})
		return true
	}
	c.cancel()
	return false
}

// room reports whether there is room for a connection. If clients must authenticate, an
// unauthenticated connection is closed to make room when the port is full, or when this connection
// is unauthenticated too and such connections use up their share. The caller holds mu.
func (s *Server) room(c *connection) bool {
	full := len(s.connections) >= s.options.MaxConnections
	crowded := c.mustProve() && s.unproved.Crowded(s.options.MaxConnections)
	return !full && !crowded || s.node.Enforced() && s.unproved.MakeRoom(c.conn.RemoteAddr())
}

// enterUnproved notes a connection whose client has proved nothing, until leaveUnproved. The caller holds the
// server's mu, and so does room, which calls what is given here.
func (c *connection) enterUnproved() {
	if h := c.holder.Load(); h != nil && h.Principal != "" {
		return
	}
	s := c.server
	left := s.unproved.Enter(c.conn.RemoteAddr(), func() {
		delete(s.connections, c)
		s.running.Go(c.cut)
	})
	c.entered.Store(&left)
}

// leaveUnproved may be called again.
func (c *connection) leaveUnproved() {
	if left := c.entered.Swap(nil); left != nil {
		(*left)()
	}
}

// keepTime releases kept readers that no request has returned to, and passes the
// time to the groups.
func (s *Server) keepTime(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	rules := s.node.Rules()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.readers.Expire(now)
			s.groups.Tick()
			rules = s.evict(rules)
		}
	}
}

// evict closes the connections of clients whose authentication is no longer valid, if rules have
// changed since before, and returns the newest rules. Unauthenticated clients that must
// authenticate from now on get as much time for it as new ones.
func (s *Server) evict(before *access.Rules) *access.Rules {
	rules := s.node.Rules()
	if rules == before {
		return before
	}
	s.cut(func(c *connection) bool {
		h := c.holder.Load()
		if h == nil || s.node.Believed(h) {
			if c.mustProve() {
				c.awaitProof()
			}
			return false
		}
		s.logger.Info("a Kafka connection was closed: what its client has proved is not valid any more", "client", c.conn.RemoteAddr().String(), "principal", h.String())
		return true
	})
	return rules
}

// cut closes connections concurrently: closing TLS takes seconds if the client does not read.
func (s *Server) cut(which func(*connection) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		if which(c) {
			s.running.Go(c.cut)
		}
	}
}

// Stop accepts no new requests and answers the received ones; waiting fetches and groups are
// answered at once. If ctx ends first, the remaining connections are closed. All goroutines of the
// server have ended when it returns.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.stop()
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.connections {
		c.finish()
	}
	s.mu.Unlock()
	cut := context.AfterFunc(ctx, func() { s.cut(func(*connection) bool { return true }) })
	s.running.Wait()
	cut()
	s.readers.Close()
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}
