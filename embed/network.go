package embed

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"google.golang.org/grpc/test/bufconn"
)

// connectionBuffer is what a connection holds in each direction.
const connectionBuffer = 256 << 10

// inMemory ends the addresses of nodes without a port. Nothing resolves it.
const inMemory = ".in-memory:0"

// network is the connections in memory of one cluster. It is complete before the
// first one is dialled.
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

// dial connects to a node of this cluster, or to a port.
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

// listener is bufconn's with an address of its own, and with the error that servers
// know when it is closed.
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
