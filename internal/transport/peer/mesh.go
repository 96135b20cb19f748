package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// NodeID is the number of a node in its cluster. 0 is not the number of any node.
type NodeID = uint64

// A Node describes a node to other nodes.
type Node struct {
	ID      NodeID `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

func (n Node) String() string { return fmt.Sprintf("%d (%s)", n.ID, n.Name) }

// Hello is the information that each side sends when a connection opens.
type Hello struct {
	Cluster string
	Former  []string // earlier ids of the cluster
	Node    Node     // ID 0: the node has not joined a cluster yet
	Proved  string   // the name of the node that Options.Prove proved; empty: none was proved
	// Incarnation is that of the node. Known holds the incarnations of other nodes when this node
	// last heard of them.
	Incarnation Incarnation
	Known       map[NodeID]Incarnation
	// Levels are the feature levels that the node understands. The zero value means that they are
	// not known.
	Levels Levels
}

// Levels is a range of feature levels.
type Levels struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// An Incarnation identifies the progress of a node: a number that never decreases, and the run of
// its process.
type Incarnation struct {
	Number uint64 `json:"number"`
	Run    uint64 `json:"run"`
}

// Options are the options of a Mesh. A function may be nil. The functions are called by many
// goroutines. They must not block for long, and must not call Close or SetNodes.
type Options struct {
	// Incarnations returns the incarnation of this node, and those of other nodes that it knows
	// of.
	Incarnations func() (own Incarnation, known map[NodeID]Incarnation)
	// Former returns the earlier ids of the cluster, for Hello.
	Former func() []string
	// Levels are the feature levels that this node understands, for Hello.
	Levels Levels
	// Dial connects to an address. By default it uses TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prove returns the name of the node at the other side of a connection, as proved by the
	// connection itself. An error refuses the connection; Prove must return one if the name is
	// not the claimed one. claimed is empty for a node that has not joined a cluster yet. An
	// empty name means that nothing is proved; then the node's own statement is believed, as it
	// is without Prove. Answer can get the name from ProvedName. For an
	// incoming connection, Prove is called at once with an empty claimed, and again with the name
	// that the other side claims.
	Prove func(conn net.Conn, claimed string) (name string, err error)
	// Admit judges the node at the other side, on both sides of a connection, and for Ask too.
	// For Ask, hello.Node.ID may be 0 and hello.Cluster empty. An error refuses the connection:
	// its text is sent to the other node, which logs it and passes it to Refused. Admit is not
	// called for this node itself, nor for a node with other versions of the protocol, which is
	// refused.
	Admit func(hello Hello) error
	// Deliver receives one message for a replica of this node. The message belongs to the callee
	// and has a buffer of its own. While Deliver runs, nothing else is received from that node.
	// The messages of a lane arrive in order.
	Deliver func(from NodeID, log, replica uint64, message []byte)
	// Compress reports whether bulk messages to a node are compressed, provided that the node
	// reads them. It is called for each batch. If it is nil, no messages are compressed.
	Compress func(to NodeID) bool
	// Answer answers a call, in a goroutine of its own. from is 0 if the caller has not joined a
	// cluster yet. The context ends when the caller no longer waits. At most 256 calls of one
	// connection run at a time.
	Answer func(ctx context.Context, from NodeID, kind string, request []byte) ([]byte, error)
	// Changed is called when a node becomes reachable or unreachable. Calls for one node do not
	// overlap and are in order. Messages that were sent before a loss and not delivered are lost.
	// refused is set if no process listens at the address any more, or if the node closed the
	// connection and also the next one that was dialled: then its process is apparently dead, and
	// not only silent.
	Changed func(node NodeID, up, refused bool)
	// Refused receives the reason for which another node refused this one. It is called once
	// until the reason changes or a connection opens. For nodes that dial, it is
	// not called more often than refusals are logged.
	Refused func(node Node, reason string)
	// TooLarge is called for each message that is dropped because of its size, and for each call
	// or answer that fails because of its size.
	TooLarge func()
	// Memory limits the queues of all nodes together. By default they have no common limit.
	Memory Memory
	// Receiving limits the messages above 1 MiB that have arrived in part, each with its full
	// size. Regardless of the limit, one message of up to 40 MiB is received from each node, and
	// one larger message from all nodes together. Other messages without room are dropped. By
	// default there is no limit.
	Receiving Room
	Logger    *slog.Logger

	pace           pace   // zero: usualPace
	oldest, newest uint32 // versions; zero: OldestVersion and Version
	noLarge        bool   // do not read large messages, like older releases
}

// Memory is the memory that the queues of all nodes share. Each queue reports its size with
// Changed, and asks Share for its current share, given the most that it may have. An empty queue
// accepts one message of any size.
type Memory interface {
	Changed(before, after int64)
	Share(most int64) int64
}

type unbounded struct{}

func (unbounded) Changed(int64, int64)   {}
func (unbounded) Share(most int64) int64 { return most }

// ErrClosed is the error of calls to a mesh that has been closed.
var ErrClosed = errors.New("peer: this node is shutting down")

// A Mesh holds the connections of this node with all others. Of each pair of nodes, the one with
// the lower id dials.
type Mesh struct {
	options Options
	log     *slog.Logger
	pace    pace
	notices notices
	context context.Context // ends with Close
	end     context.CancelCauseFunc
	// proved and unproved are the incoming connections without a link, by what Options.Prove says of them.
	proved, unproved visitors
	beyond           atomic.Bool // see receiving

	links atomic.Pointer[map[NodeID]*link] // replaced, never changed

	mu      sync.Mutex // guards the fields below, and the start of tasks against Close
	tasks   sync.WaitGroup
	closed  bool
	cluster string
	self    Node
	nodes   []Node // nodes of the last SetNodes
}

// New returns a mesh without connections.
func New(options Options) *Mesh {
	m := &Mesh{options: options, log: options.Logger, pace: options.pace, notices: newNotices()}
	if m.options.Dial == nil {
		m.options.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if m.options.Memory == nil {
		m.options.Memory = unbounded{}
	}
	if m.options.Receiving == nil {
		m.options.Receiving = unbounded{}
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.options.newest == 0 {
		m.options.oldest, m.options.newest = OldestVersion, Version
	}
	if m.pace == (pace{}) {
		m.pace = usualPace
	}
	m.context, m.end = context.WithCancelCause(context.Background())
	m.links.Store(&map[NodeID]*link{})
	return m
}

// Identify sets the cluster and the identity of this node. Before it is called with an id, the
// mesh can only Ask and be asked. A change of the id or the cluster ends all connections.
func (m *Mesh) Identify(cluster string, self Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cluster != cluster || m.self.ID != self.ID {
		for _, l := range *m.links.Load() {
			l.close(errOtherSelf)
		}
		m.links.Store(&map[NodeID]*link{})
	}
	m.cluster, m.self = cluster, self
	m.arrange()
}

// SetNodes sets the nodes to connect with. It ignores self among them. It may be called at any
// time: the connection with a node that is no longer in the list, or has another address there,
// is closed.
func (m *Mesh) SetNodes(nodes []Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = slices.Clone(nodes)
	m.arrange()
}

// arrange updates the links to match the nodes. The caller holds mu.
func (m *Mesh) arrange() {
	if m.closed || m.self.ID == 0 {
		return
	}
	before, links := *m.links.Load(), map[NodeID]*link{}
	for _, node := range m.nodes {
		switch l := before[node.ID]; {
		case node.ID == 0 || node.ID == m.self.ID:
		case links[node.ID] != nil: // listed twice
		case l != nil:
			l.become(node)
			links[node.ID] = l
		default:
			l = newLink(m, node)
			links[node.ID] = l
			if m.self.ID < node.ID {
				m.tasks.Go(l.keepConnected)
			}
		}
	}
	m.links.Store(&links)
	for id, l := range before {
		if links[id] == nil {
			l.close(errRemoved)
		}
	}
}

// Send queues a message for a replica of another node. It never blocks. If it returns false, the
// message is dropped, because there is no connection, the queue is full (88 MiB, and 40 for
// urgent messages, or its share of the memory), or the message is too large. True promises
// nothing: the message may be lost with the connection. Urgent messages overtake others; messages
// of one lane keep their order. The bytes are shared, not copied, and must never change.
//
// A message that is not urgent and is above MaxMessage, up to MaxLargeMessage, travels in a lane
// of its own if the other node reads that lane. It replaces an earlier large message for the same
// replica whose transfer has not begun. Two such messages with the same size and equal first
// parts are the same message: the transfer of the earlier one continues.
func (m *Mesh) Send(to NodeID, log, replica uint64, urgently bool, message net.Buffers) bool {
	l := m.link(to)
	if l == nil {
		return false
	}
	h := header{kind: messageFrame, log: log, replica: replica}
	if urgently {
		h.lane = urgent
	}
	c := l.current.Load()
	if c == nil || !c.send(l, h, message) {
		l.traffic.dropped.Add(1)
		return false
	}
	return true
}

// send queues a message in the lane for its size.
func (c *connection) send(l *link, h header, message net.Buffers) bool {
	bytes := size(message)
	switch {
	case bytes <= MaxMessage:
		return c.queue.put(h, message)
	case h.lane == urgent || bytes > MaxLargeMessage:
		l.dropTooLarge(h, bytes, "no node accepts messages of this size")
		return false
	case !c.takesLarge:
		l.dropTooLarge(h, bytes, "the release on that node does not accept messages of this size: upgrade it")
		return false
	}
	return c.queue.putLarge(h, message)
}

// Call asks a connected node and waits for its answer. An error of the other node's Answer is a
// *RemoteError. ErrNotConnected and ErrBusy mean that nothing was done. After ErrConnectionLost,
// or when ctx ends, the other node may have answered, or may still do so.
func (m *Mesh) Call(ctx context.Context, to NodeID, kind string, request []byte) ([]byte, error) {
	l := m.link(to)
	if l == nil {
		return nil, ErrNotConnected
	}
	c := l.current.Load()
	if c == nil {
		return nil, ErrNotConnected
	}
	return c.call(ctx, kind, request)
}

// Close ends all connections and waits for all goroutines, including calls of functions of
// Options.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end(ErrClosed)
	m.tasks.Wait()
}

func (m *Mesh) link(to NodeID) *link { return (*m.links.Load())[to] }

// start runs a task that Close waits for. It returns false if the mesh is closed.
func (m *Mesh) start(task func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.tasks.Go(task)
	}
	return !m.closed
}

func (m *Mesh) identity() (cluster string, self Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cluster, m.self
}

func (m *Mesh) opening(ask bool) opening {
	cluster, self := m.identity()
	o := opening{Cluster: cluster, Node: self, Ask: ask, Compression: true, LargeMessages: !m.options.noLarge, Levels: m.options.Levels, oldest: m.options.oldest, Newest: m.options.newest}
	if m.options.Former != nil {
		o.Former = m.options.Former()
	}
	if m.options.Incarnations != nil {
		o.Incarnation, o.Known = m.options.Incarnations()
	}
	return o
}

func (m *Mesh) admit(theirs opening) verdict {
	if m.options.Admit == nil {
		return verdict{}
	}
	if err := m.options.Admit(theirs.hello()); err != nil {
		return verdict{refused, err.Error()}
	}
	return verdict{}
}
