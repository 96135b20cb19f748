package secure

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/time/rate"

	"strandline.dev/internal/budget"
)

// A Gate makes the listeners of a node. They return connections whose handshake, if there is one,
// has succeeded, and limit the connections of each address.
type Gate struct {
	o       GateOptions
	logger  *slog.Logger
	begin   *rate.Limiter // of handshakes
	failing failing
	logins  failing
	metrics *metrics
}

// GateOptions are the options of a Gate.
type GateOptions struct {
	// Credentials are used to encrypt all connections. If it is nil, no connection is encrypted.
	Credentials *Credentials
	// Plain accepts unencrypted connections beside encrypted ones.
	Plain bool
	// Otherwise reports whether clients may authenticate without a certificate, after they have
	// connected; see Proved. If it is nil, they may not.
	Otherwise func() bool
	// PerAddress is the limit on the connections of one address to a port. It does not apply to
	// this machine. 0 means no limit.
	PerAddress int
	// Whence returns the address that a connection counts for. If it is nil, that is its remote address.
	Whence func(net.Conn) net.Addr
	// HandshakeTime is how long a connection may take until its handshake ends. 0 means 10 s.
	HandshakeTime time.Duration
	Logger        *slog.Logger
}

// A Port describes one port to a gate.
type Port struct {
	Name string // for its metrics
	// Protocols are those that the handshake may select. If there are none, the client may speak
	// any protocol.
	Protocols []string
	// AnonymousToo accepts clients without a certificate even if Files.Clients is set.
	AnonymousToo bool
	// Most is the limit on the connections of all addresses. 0 means no limit.
	Most int
	// Yields makes a full port close the oldest connection of the address with the most
	// connections for one of an address with fewer. No address except this machine may hold more
	// than MostOfEach.
	Yields     bool
	MostOfEach int
}

// NewGate returns a gate.
func NewGate(o GateOptions) *Gate {
	if o.Whence == nil {
		o.Whence = net.Conn.RemoteAddr
	}
	o.HandshakeTime = cmp.Or(o.HandshakeTime, handshakeTime)
	perSecond := handshakesPerCore * runtime.GOMAXPROCS(0)
	return &Gate{
		failing: failing{token: failingToken, full: map[netip.Prefix]time.Time{}},
		logins:  failing{token: loginToken, full: map[netip.Prefix]time.Time{}, unpaid: budget.NewTurns(loginRate)},
		o:       o, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		begin: rate.NewLimiter(rate.Limit(perSecond), perSecond), metrics: newMetrics(o.Credentials),
	}
}

// Listen returns a listener for the accepted connections of l. Closing it closes l.
func (g *Gate) Listen(l net.Listener, port Port) net.Listener {
	g.metrics.serve(port.Name)
	counting := &countingListener{Listener: l, gate: g, port: port}
	counting.open = addresses{most: port.Most, mostOfEach: smaller(g.o.PerAddress, port.MostOfEach), yields: port.Yields, ofEach: map[netip.Prefix]int{}}
	if g.o.Credentials == nil {
		return counting
	}
	return newEncryptedListener(counting)
}

// smaller returns the smaller of two limits. 0 means no limit.
func smaller(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// countingListener closes connections of addresses that have reached their limit.
type countingListener struct {
	net.Listener
	gate *Gate
	port Port
	open addresses
}

func (l *countingListener) Accept() (net.Conn, error) {
	for {
		socket, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := socket.(*net.TCPConn)
		from := prefixOf(l.gate.o.Whence(socket))
		if !ok || l.port.Most == 0 && !from.IsValid() {
			return socket, nil
		}
		if leave, entered := l.open.enter(socket, from); entered {
			return &counted{TCPConn: tcp, leave: leave, logins: &l.gate.logins}, nil
		}
		l.gate.metrics.refused.WithLabelValues(l.port.Name, tooManyConnections).Inc()
		_ = socket.Close()
	}
}
