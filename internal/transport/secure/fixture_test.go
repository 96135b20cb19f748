package secure

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/identity"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// authority writes files of one authority.
type authority struct {
	t   testing.TB
	dir string
	*identity.Authority
}

func period() identity.Period {
	return identity.Period{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
}

func newAuthority(t *testing.T, cluster string) *authority {
	t.Helper()
	return newAuthorityAt(t, cluster, t.TempDir())
}

func newAuthorityAt(t testing.TB, cluster, dir string) *authority {
	t.Helper()
	pair, err := identity.NewAuthority(cluster, period())
	require.NoError(t, err)
	a, err := identity.OpenAuthority(pair)
	require.NoError(t, err)
	made := &authority{t: t, dir: dir, Authority: a}
	require.NoError(t, os.WriteFile(made.ca(), pair.Certificate, 0o600))
	return made
}

func (a *authority) ca() string { return filepath.Join(a.dir, "ca.crt") }

// write writes a pair under a name, in the place of one that is there.
func (a *authority) write(name string, p identity.Pair, err error) Files {
	a.t.Helper()
	require.NoError(a.t, err)
	f := Files{Certificate: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key"), Authority: a.ca()}
	require.NoError(a.t, os.WriteFile(f.Certificate, p.Certificate, 0o600))
	require.NoError(a.t, os.WriteFile(f.Key, p.Key, 0o600))
	return f
}

func (a *authority) node(name string) Files {
	a.t.Helper()
	p, err := a.Node(name, []string{"127.0.0.1"}, period())
	return a.write("node-"+name, p, err)
}

func (a *authority) user(name string) Files {
	a.t.Helper()
	p, err := a.User(name, period())
	return a.write("user-"+name, p, err)
}

// port is a gate before a port of this machine, and what comes by it.
type port struct {
	net.Listener
	*Gate
	t *testing.T
}

func (f Files) withClients(of string) Files {
	f.Clients = of
	return f
}

func openPort(t *testing.T, node string, f Files, o GateOptions, p Port) *port {
	t.Helper()
	var err error
	o.Credentials, err = OpenNode(node, f, nil)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.Name = "test"
	g := NewGate(o)
	made := &port{g.Listen(l, p), g, t}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// connect is what the two sides get of one connection. The error is what the client
// hears first.
func (p *port) connect(dial DialFunc) (client, server net.Conn, err error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	accepted := make(chan net.Conn, 1)
	failed := p.refused(handshakeFailed)
	go func() {
		conn, err := p.Accept()
		if err == nil {
			_, _ = conn.Write([]byte("!")) // a refusal comes instead of the first byte
		}
		accepted <- conn
	}()
	client, err = dial(ctx, p.Addr().String())
	if err == nil {
		made := client
		p.t.Cleanup(func() { _ = made.Close() })
		_, err = client.Read(make([]byte, 1))
	}
	if err != nil {
		require.Eventually(p.t, func() bool { return p.refused(handshakeFailed) > failed }, time.Minute, time.Millisecond)
		_ = p.Close() // Accept ends
		<-accepted
		return nil, nil, err
	}
	server = <-accepted
	require.NotNil(p.t, server)
	p.t.Cleanup(func() { _ = server.Close() })
	return client, server, nil
}

func (p *port) refused(reason string) float64 {
	return testutil.ToFloat64(p.metrics.refused.WithLabelValues("test", reason))
}

// asClient dials with the files of a client.
func asClient(t *testing.T, f Files) DialFunc {
	t.Helper()
	c, err := OpenClient(f)
	require.NoError(t, err)
	return func(ctx context.Context, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: c.Client(host)}).DialContext(ctx, "tcp", address)
	}
}

// asNode dials with the files of a node.
func asNode(t *testing.T, name string, f Files, plain bool) DialFunc {
	t.Helper()
	c, err := OpenNode(name, f, nil)
	require.NoError(t, err)
	return NewGate(GateOptions{Credentials: c, Plain: plain}).DialNode(nil)
}
