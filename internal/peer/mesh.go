package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
)

// NodeID is the number of a node in its cluster. 0 is no node.
type NodeID = uint64

// Node is a node as others know it.
type Node struct {
	ID      NodeID `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Hello is what each side tells of itself when a connection opens.
type Hello struct {
	Version uint32
	Cluster string
	Node    Node // ID 0: a node that is in no cluster yet
}

// Options of a Mesh. Functions that are nil do nothing; they are called by
// many goroutines and must neither block for long nor call Close or SetNodes.
type Options struct {
	// Dial connects to an address; by default with TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Admit judges who says hello, on both sides, and for Ask too: there
	// hello.Node.ID may be 0 and hello.Cluster empty. An error refuses: its text
	// is sent to the other side, who logs it and gets it by Refused. Not judged
	// are this node itself, and other versions, which are refused.
	Admit func(hello Hello) error
	// Deliver takes one message for a replica of this node. The message belongs
	// to the callee, in a buffer of its own. While Deliver runs nothing else is
	// received from that node. The messages of a lane come in order.
	Deliver func(from NodeID, log, replica uint64, message []byte)
	// Answer answers a call, in a goroutine of its own. From is 0 if a node
	// asks that is in no cluster yet. The context ends when the caller does not
	// wait any longer. At most 256 run for one connection.
	Answer func(ctx context.Context, from NodeID, kind string, request []byte) ([]byte, error)
	// Changed is told when a node can be reached, or no longer; for one node
	// never at the same time, and in order. Messages sent before a loss and not
	// delivered are lost. Refused: nothing listens at its address any more, or
	// it closed the connection: its process is gone, as against silence.
	Changed func(node NodeID, up, refused bool)
	// Refused is told the reason another node gave for refusing this one, once
	// until the reason changes or a connection opens.
	Refused func(node Node, reason string)
	Logger  *slog.Logger

	pace pace // zero: usualPace
}

// ErrClosed is the error of calls to a mesh that has been closed.
var ErrClosed = errors.New("peer: this node is shutting down")

// Mesh holds this node's connections with all others. For each pair of nodes,
// the one with the lower id dials.
type Mesh struct {
	options Options
	log     *slog.Logger
	pace    pace

	context  context.Context // ends with Close
	end      context.CancelFunc
	visitors chan struct{} // holds one for each connection that is no link's

	mu      sync.Mutex // guards what follows, and tasks.Add against Close
	tasks   sync.WaitGroup
	closed  bool
	cluster string
	self    Node
	nodes   []Node
}

// New makes a mesh without connections.
func New(options Options) *Mesh {
	return &Mesh{options: options}
}

// Identify says who this node is. Before it is called with an id, the mesh can
// only Ask and be asked. Another id or cluster than before ends all connections.
func (m *Mesh) Identify(cluster string, self Node) {}

// SetNodes says which nodes to be connected with; self among them is ignored.
// It may change at any time: a connection to a node that is gone from the list,
// or has another address there, is closed.
func (m *Mesh) SetNodes(nodes []Node) {}

// Accept takes an incoming connection. It does not block.
func (m *Mesh) Accept(conn net.Conn) {}

// Send queues a message for a replica of another node and never blocks. False:
// the message is dropped, as there is no connection, or the queue is full, or
// it exceeds MaxMessage. True promises nothing: it may be lost with the
// connection. Urgent messages overtake others; within a lane order is kept.
// The bytes are shared, not copied, and must never change.
func (m *Mesh) Send(to NodeID, log, replica uint64, urgent bool, message net.Buffers) bool {
	return false
}

// Call asks a connected node and waits for its answer. An error of its Answer
// comes as a *RemoteError. ErrNotConnected and ErrBusy mean that nothing was
// sent; after ErrConnectionLost, or when ctx ends, the other side may have
// answered, or may still.
func (m *Mesh) Call(ctx context.Context, to NodeID, kind string, request []byte) ([]byte, error) {
	return nil, nil
}

// Ask is Call over a short connection to an address. It needs no cluster, and
// may ask this node itself. A refusal of the other side is a *RefusedError.
func (m *Mesh) Ask(ctx context.Context, address, kind string, request []byte) ([]byte, error) {
	return nil, nil
}

// Close ends all connections and waits for all that runs.
func (m *Mesh) Close() {}
