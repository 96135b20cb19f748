package secure

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/time/rate"
)

// Gate makes the listeners of a node: they let in what has completed its handshake, if
// there is to be one, and no more from one address than it may hold.
type Gate struct {
	o       GateOptions
	logger  *slog.Logger
	begin   *rate.Limiter // of handshakes
	failing failing
	logins  failing
	metrics *metrics
}

// GateOptions of a Gate.
type GateOptions struct {
	// Credentials encrypt all connections. nil: none is.
	Credentials *Credentials
	// Plain takes connections that are not encrypted beside those that are.
	Plain bool
	// Otherwise reports whether clients may prove who they are without a certificate, once
	// they are connected: see Proved. nil: they may not.
	Otherwise func() bool
	// PerAddress bounds the connections of a port that one address holds, but for those
	// of this machine; 0: any number.
	PerAddress int
	Logger     *slog.Logger
}

// Port is what a gate needs to know of one port.
type Port struct {
	Name string // for its metrics
	// Protocols are those that may be agreed upon in the handshake; none: whatever the
	// client speaks.
	Protocols []string
	// AnonymousToo lets clients in that show no certificate, where others have to.
	AnonymousToo bool
	// Most bounds the connections of all addresses; 0: any number.
	Most int
	// Yields: a port that has Most closes the oldest connection of the address with the most
	// for one of an address with fewer, and no address holds more than MostOfEach, but for
	// this machine.
	Yields     bool
	MostOfEach int
}

// NewGate makes a gate.
func NewGate(o GateOptions) *Gate {
	perSecond := handshakesPerCore * runtime.GOMAXPROCS(0)
	return &Gate{
		failing: failing{token: failingToken, full: map[netip.Prefix]time.Time{}},
		logins:  failing{token: loginToken, full: map[netip.Prefix]time.Time{}},
		o:       o, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		begin: rate.NewLimiter(rate.Limit(perSecond), perSecond), metrics: newMetrics(o.Credentials),
	}
}

// Listen returns a listener of what comes by l and is let in. Closing it closes l.
func (g *Gate) Listen(l net.Listener, port Port) net.Listener {
	g.metrics.serve(port.Name)
	counting := &countingListener{Listener: l, gate: g, port: port}
	counting.open = addresses{most: port.Most, mostOfEach: smaller(g.o.PerAddress, port.MostOfEach), yields: port.Yields, ofEach: map[netip.Prefix]int{}}
	if g.o.Credentials == nil {
		return counting
	}
	return newEncryptedListener(counting)
}

// smaller returns the smaller of two bounds, of which 0 is none.
func smaller(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// countingListener closes connections of addresses that have as many as they may.
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
		from := prefixOf(socket.RemoteAddr())
		if !ok || l.port.Most == 0 && !from.IsValid() {
			return socket, nil
		}
		if leave, entered := l.open.enter(socket, from); entered {
			return &counted{TCPConn: tcp, leave: leave}, nil
		}
		l.gate.metrics.refused.WithLabelValues(l.port.Name, tooManyConnections).Inc()
		_ = socket.Close()
	}
}
