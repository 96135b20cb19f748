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

// NodeID is the number of a node in its cluster. 0 is no node.
type NodeID = uint64

// Node is a node as others know it.
type Node struct {
	ID      NodeID `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

func (n Node) String() string { return fmt.Sprintf("%d (%s)", n.ID, n.Name) }

// Hello is what each side says about itself when a connection opens.
type Hello struct {
	Cluster string
	Former  []string // ids that the cluster had before
	Node    Node     // ID 0: a node that is in no cluster yet
	Proved  string   // its name as Options.Prove has proved it; empty: nothing was proved
	// Incarnation is how far the node has come; Known is how far others had when it heard
	// of them last.
	Incarnation Incarnation
	Known       map[NodeID]Incarnation
	// Levels are the feature levels that the node understands; zero: it does not say.
	Levels Levels
}

// Levels are feature levels, from Min to Max.
type Levels struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Incarnation is how far a node has come: a number that never falls, and the run of its
// process.
type Incarnation struct {
	Number uint64 `json:"number"`
	Run    uint64 `json:"run"`
}

// Options of a Mesh. Functions that are nil do nothing; they are called by
// many goroutines and must neither block for long nor call Close or SetNodes.
type Options struct {
	// Incarnations is how far this node has come, and others as far as it knows.
	Incarnations func() (own Incarnation, known map[NodeID]Incarnation)
	// Former are ids that the cluster had before, for Hello.
	Former func() []string
	// Levels are the feature levels that this node understands, for Hello.
	Levels Levels
	// Dial connects to an address; by default with TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prove returns the name of the node at the other side of a connection, as the
	// connection itself proves it, and an error, which refuses it, if that is not the
	// name it claims; claimed is empty of a node that is in no cluster yet. An empty
	// name: nothing is proved, and what a node says of itself is believed, as it is
	// without Prove. The functions that answer find it by ProvedName.
	Prove func(conn net.Conn, claimed string) (name string, err error)
	// Admit judges who says hello, on both sides, and for Ask too: there
	// hello.Node.ID may be 0 and hello.Cluster empty. An error refuses: its text
	// is sent to the other side, who logs it and gets it by Refused. Not judged
	// are this node itself, and who speaks other versions, which are refused.
	Admit func(hello Hello) error
	// Deliver takes one message for a replica of this node. The message belongs
	// to the callee, in a buffer of its own. While Deliver runs nothing else is
	// received from that node. The messages of a lane come in order.
	Deliver func(from NodeID, log, replica uint64, message []byte)
	// Compress reports whether bulk messages to a node are compressed, if that reads them. It
	// is asked with each batch. nil: none are.
	Compress func(to NodeID) bool
	// Answer answers a call, in a goroutine of its own. From is 0 if a node
	// asks that is in no cluster yet. The context ends when the caller does not
	// wait any longer. At most 256 run for one connection.
	Answer func(ctx context.Context, from NodeID, kind string, request []byte) ([]byte, error)
	// Changed is called when a node can be reached, or no longer; for one node
	// never at the same time, and in order. Messages sent before a loss and not
	// delivered are lost. Refused: nothing listens at its address any more, or it
	// closed the connection, and one that was dialled after it too: its process is
	// gone, as far as one can tell, and not only silent.
	Changed func(node NodeID, up, refused bool)
	// Refused gets the reason another node gave for refusing this one, once
	// until the reason changes or a connection opens.
	Refused func(node Node, reason string)
	// TooLarge is called for each message that is dropped for its size, and for each call or
	// answer that fails for it.
	TooLarge func()
	// Memory bounds what waits for all nodes together. Default: nothing does.
	Memory Memory
	// Receiving bounds the messages of more than 1 MiB that have begun to arrive and not ended, each with what
	// it is going to have. Of each node one of up to 40 MiB is received however much there is, and of all nodes
	// together one that is larger. What has no room is dropped. Default: all has.
	Receiving Room
	Logger    *slog.Logger

	pace           pace   // zero: usualPace
	oldest, newest uint32 // versions; zero: OldestVersion and Version
	noLarge        bool   // large messages are not read, as by releases before them
}

// Memory is what the queues of all nodes share. Each reports what it holds, by Changed,
// and asks for its share of that as things are, where it would have most at the most. A
// queue that is empty takes one message of any size.
type Memory interface {
	Changed(before, after int64)
	Share(most int64) int64
}

type unbounded struct{}

func (unbounded) Changed(int64, int64)   {}
func (unbounded) Share(most int64) int64 { return most }

// ErrClosed is the error of calls to a mesh that has been closed.
var ErrClosed = errors.New("peer: this node is shutting down")

// Mesh holds this node's connections with all others. For each pair of nodes,
// the one with the lower id dials.
type Mesh struct {
	options  Options
	log      *slog.Logger
	pace     pace
	notices  notices
	context  context.Context // ends with Close
	end      context.CancelCauseFunc
	visitors chan struct{} // holds one for each incoming connection without a link
	beyond   atomic.Bool   // see receiving

	links atomic.Pointer[map[NodeID]*link] // replaced, never changed

	mu      sync.Mutex // guards what follows, and starting tasks against Close
	tasks   sync.WaitGroup
	closed  bool
	cluster string
	self    Node
	nodes   []Node // those of the last SetNodes
}

// New makes a mesh without connections.
func New(options Options) *Mesh {
	m := &Mesh{options: options, log: options.Logger, pace: options.pace, visitors: make(chan struct{}, maxVisitors)}
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

// Identify says who this node is. Before it is called with an id, the mesh can
// only Ask and be asked. Another id or cluster than before ends all connections.
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

// SetNodes says which nodes to be connected with; self among them is ignored.
// It may change at any time: a connection to a node that is gone from the list,
// or has another address there, is closed.
func (m *Mesh) SetNodes(nodes []Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = slices.Clone(nodes)
	m.arrange()
}

// arrange makes the links those of the nodes. It is called with mu held.
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

// Send queues a message for a replica of another node and never blocks. False:
// the message is dropped, as there is no connection, or the queue is full (88 MiB,
// and 40 for urgent ones, or its share of the memory), or it is too large. True promises
// nothing: it may be lost with the connection. Urgent messages overtake others;
// within a lane order is kept. The bytes are shared, not copied, and must never
// change.
//
// A message above MaxMessage that is not urgent, up to MaxLargeMessage, travels in a lane of its own
// beside the others, if the other node reads that. One for a replica takes the place of the one
// before that has not begun yet. Two of the same size whose first parts are equal are the same: the one before
// continues.
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
		l.dropTooLarge(h, bytes, "no node takes messages of that size")
		return false
	case !c.takesLarge:
		l.dropTooLarge(h, bytes, "the release on that node does not take messages of that size: upgrade it")
		return false
	}
	return c.queue.putLarge(h, message)
}

// Call asks a connected node and waits for its answer. An error of its Answer
// comes as a *RemoteError. ErrNotConnected and ErrBusy mean that nothing was
// done; after ErrConnectionLost, or when ctx ends, the other side may have
// answered, or may still.
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

// Close ends all connections and waits for all that runs, functions of Options
// included.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end(ErrClosed)
	m.tasks.Wait()
}

func (m *Mesh) link(to NodeID) *link { return (*m.links.Load())[to] }

// start runs a task that Close waits for. False: the mesh is closed.
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
