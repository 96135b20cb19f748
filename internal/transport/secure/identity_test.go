package secure

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/identity"
)

func TestAServerKnowsWhoIsThere(t *testing.T) {
	ca := newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a").withClients(ca.ca()), GateOptions{}, Port{})
	for who, files := range map[string]Files{"user/alice": ca.user("alice"), "node/b": ca.node("b")} {
		_, server, err := p.connect(asClient(t, files))
		require.NoError(t, err)
		require.Equal(t, who, PrincipalAt(server.RemoteAddr()).String())
		require.Equal(t, uint16(tls.VersionTLS13), server.(*tls.Conn).ConnectionState().Version)
	}
}

func TestWhoIsNotBelievedIsNotLetIn(t *testing.T) {
	ca, other, clients := newAuthority(t, "prod"), newAuthority(t, "prod"), newAuthority(t, "prod")
	elsewhere := newAuthority(t, "test")
	trusting := func(f Files) Files { f.Authority = ca.ca(); return f } // of the server
	for name, files := range map[string]Files{
		"no certificate":                               {Authority: ca.ca()},
		"a user of another authority":                  trusting(other.user("alice")),
		"a user of the authority of nodes only":        ca.user("alice"),
		"a node of the authority of clients only":      trusting(clients.node("b")),
		"a user of another cluster":                    trusting(elsewhere.user("alice")),
		"a certificate that does not name a principal": trusting(nameless(t, clients)),
	} {
		p := openPort(t, "a", ca.node("a").withClients(clients.ca()), GateOptions{}, Port{})
		_, _, err := p.connect(asClient(t, files))
		require.ErrorContains(t, err, "tls:", name)
	}
	// Several clusters may have one authority.
	shared := bundle(t, clients, elsewhere)
	p := openPort(t, "a", ca.node("a").withClients(shared), GateOptions{}, Port{})
	_, _, err := p.connect(asClient(t, trusting(elsewhere.user("alice"))))
	require.ErrorContains(t, err, "tls:", "a user of another cluster")
	p = openPort(t, "a", ca.node("a").withClients(shared), GateOptions{}, Port{})
	_, server, err := p.connect(asClient(t, trusting(clients.user("alice"))))
	require.NoError(t, err)
	require.Equal(t, "user/alice", PrincipalAt(server.RemoteAddr()).String())
}

// bundle is a file with several authorities.
func bundle(t *testing.T, of ...*authority) string {
	t.Helper()
	var all []byte
	for _, a := range of {
		text, err := os.ReadFile(a.ca())
		require.NoError(t, err)
		all = append(all, text...)
	}
	path := filepath.Join(t.TempDir(), "bundle.crt")
	require.NoError(t, os.WriteFile(path, all, 0o600))
	return path
}

// nameless is a certificate that an authority signs for no principal: its own.
func nameless(t *testing.T, a *authority) Files {
	t.Helper()
	pair, err := identity.NewAuthority("prod", period())
	return a.write("nameless", pair, err)
}

func TestAClientMayBeAnonymousWhereNoneHasToSayWhoItIs(t *testing.T) {
	ca := newAuthority(t, "prod")
	anonymous := asClient(t, Files{Authority: ca.ca()})
	for _, p := range []*port{
		openPort(t, "a", ca.node("a"), GateOptions{}, Port{}),
		openPort(t, "a", ca.node("a").withClients(ca.ca()), GateOptions{}, Port{AnonymousToo: true}),
	} {
		_, server, err := p.connect(anonymous)
		require.NoError(t, err)
		require.Equal(t, identity.Principal{}, PrincipalAt(server.RemoteAddr()))
	}
	// Whoever says who it is has to prove it all the same.
	other := newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a"), GateOptions{}, Port{})
	_, _, err := p.connect(asClient(t, Files{Authority: ca.ca(), Certificate: other.user("alice").Certificate, Key: other.user("alice").Key}))
	require.ErrorContains(t, err, "tls:")
}

func TestAClientBelievesAServerForItsHostOnly(t *testing.T) {
	ca := newAuthority(t, "prod")
	pair, err := ca.Node("a", []string{"a.example"}, period())
	p := openPort(t, "a", ca.write("node-a", pair, err), GateOptions{}, Port{})
	_, _, err = p.connect(asClient(t, Files{Authority: ca.ca()}))
	require.ErrorContains(t, err, "127.0.0.1")
}

// The other side of each connection between nodes proves which node it is.
func TestANodeProvesWhichNodeItIs(t *testing.T) {
	ca, other := newAuthority(t, "prod"), newAuthority(t, "prod")
	trusting := func(f Files) Files { f.Authority = ca.ca(); return f }
	toServer := func(name string, dial DialFunc) (proved string, err error) {
		p := openPort(t, "a", ca.node("a"), GateOptions{}, Port{})
		_, server, err := p.connect(dial)
		if err != nil {
			return "", err
		}
		proved, err = p.Prove(server, name)
		require.Equal(t, map[bool]float64{true: 1}[err != nil], testutil.ToFloat64(p.metrics.unproved), "it is counted")
		return proved, err
	}
	proved, err := toServer("b", asNode(t, "b", ca.node("b"), false))
	require.NoError(t, err)
	require.Equal(t, "b", proved)
	proved, err = toServer("", asNode(t, "b", ca.node("b"), false))
	require.NoError(t, err, "it has not said who it is")
	require.Equal(t, "b", proved)

	_, err = toServer("b", asNode(t, "b", trusting(other.node("b")), false))
	require.ErrorContains(t, err, "tls:", "another authority")
	_, err = toServer("b", asNode(t, "c", ca.node("c"), false))
	require.ErrorContains(t, err, `the certificate is that of node/c, but the node has the name "b"`)
	_, err = toServer("b", asClient(t, ca.user("b")))
	require.ErrorContains(t, err, "user/b, not of a node")
	_, err = toServer("b", asClient(t, Files{Authority: ca.ca()}))
	require.ErrorContains(t, err, "presented no certificate")
}

// Who dials a node does not believe anybody else.
func TestANodeIsNotDialledWhereAnotherAnswers(t *testing.T) {
	ca, other := newAuthority(t, "prod"), newAuthority(t, "prod")
	dial := asNode(t, "b", ca.node("b"), true)
	p := openPort(t, "a", other.node("a"), GateOptions{}, Port{})
	_, _, err := p.connect(dial)
	require.ErrorContains(t, err, "unknown authority")

	user, err := tls.LoadX509KeyPair(ca.user("alice").Certificate, ca.user("alice").Key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{user}})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
		served <- err
	}()
	_, err = dial(t.Context(), l.Addr().String())
	require.Error(t, err, "a user's certificate serves nobody")
	<-served
	require.NoError(t, l.Close())
}

// While a cluster is being secured nodes with and without certificates are in it.
func TestANodeThatIsBeingSecuredTalksToThoseThatAreNot(t *testing.T) {
	ca := newAuthority(t, "prod")
	plain := func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	for name, dial := range map[string]DialFunc{"without": plain, "with": asNode(t, "b", ca.node("b"), false), "either": asNode(t, "b", ca.node("b"), true)} {
		p := openPort(t, "a", ca.node("a").withClients(ca.ca()), GateOptions{Plain: true}, Port{})
		client, server, err := p.connect(sayingFirst(dial))
		require.NoError(t, err, name)
		_, encrypted := server.(*tls.Conn)
		require.Equal(t, name != "without", encrypted, name)
		read := make([]byte, 5)
		_, err = io.ReadFull(server, read)
		require.NoError(t, err)
		require.Equal(t, "hello", string(read), "no byte is lost")
		require.NoError(t, client.Close())
		proved, err := p.Prove(server, "b")
		require.NoError(t, err)
		require.Equal(t, map[bool]string{true: "b"}[encrypted], proved)
	}

	// One that knows no TLS answers something else.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	said := make(chan string, 2)
	go func() {
		for range 2 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("not TLS"))
			first := make([]byte, 5)
			n, _ := io.ReadFull(conn, first)
			said <- string(first[:n])
			_ = conn.Close()
		}
	}()
	conn, err := sayingFirst(asNode(t, "b", ca.node("b"), true))(t.Context(), l.Addr().String())
	require.NoError(t, err)
	require.NotEqual(t, "hello", <-said)
	require.Equal(t, "hello", <-said)
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	_, err = asNode(t, "b", ca.node("b"), false)(t.Context(), openPlain(t))
	require.ErrorContains(t, err, "TLS with", "one that is secured does not")
}

// openPlain is the address of a port that closes every connection.
func openPlain(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("not TLS"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

func sayingFirst(dial DialFunc) DialFunc {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			_, err = conn.Write([]byte("hello"))
		}
		return conn, err
	}
}

func TestANodeNeedsACertificateOfItsOwnName(t *testing.T) {
	ca := newAuthority(t, "prod")
	_, err := OpenNode("b", ca.node("a"), nil)
	require.ErrorContains(t, err, "it certifies node/a, but this node is node/b")
	_, err = OpenNode("alice", ca.user("alice"), nil)
	require.ErrorContains(t, err, "it certifies user/alice")
	_, err = OpenNode("a", nameless(t, ca), nil)
	require.ErrorContains(t, err, "names the principal \"strandline://prod\"")
	_, err = OpenNode("a", Files{}, nil)
	require.ErrorContains(t, err, "needs all of its certificate")
	_, err = OpenClient(Files{Certificate: ca.user("alice").Certificate})
	require.ErrorContains(t, err, "a certificate needs its key")
}
