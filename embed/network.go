package embed

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"google.golang.org/grpc/test/bufconn"
)

// connectionBuffer is the size of the buffer of a connection in each direction, in bytes.
const connectionBuffer = 256 << 10

// inMemory is the suffix of the address of a node without a port. No resolver resolves it.
const inMemory = ".in-memory:0"

// network holds the listeners of the in-memory connections of one cluster. All listeners are
// added before the first connection is dialled.
type network struct {
	listeners map[string]listener
}

func newNetwork() *network { return &network{listeners: map[string]listener{}} }

func (n *network) has(address string) bool {
	_, has := n.listeners[address]
	return has
}

func (n *network) listen(name string) net.Listener {
	l := listener{bufconn.Listen(connectionBuffer), hostPort(name + inMemory)}
	n.listeners[string(l.address)] = l
	return l
}

// dial connects to a node of this cluster or to a port.
func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	if l, ok := n.listeners[address]; ok {
		conn, err := l.DialContext(ctx)
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
		}
		return conn, err
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// listener is a bufconn.Listener with an address of its own. Its Accept returns the error that
// servers expect after the listener was closed.
type listener struct {
	*bufconn.Listener
	address hostPort
}

func (l listener) Addr() net.Addr { return l.address }

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return conn, nil
}

type hostPort string

func (hostPort) Network() string  { return "memory" }
func (a hostPort) String() string { return string(a) }
