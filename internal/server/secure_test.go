package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"strandline.dev/client"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/transport/secure"
)

// authority writes the certificates of a cluster to files.
type authority struct {
	t   testing.TB
	dir string
	*identity.Authority
}

func period() identity.Period {
	return identity.Period{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	pair, err := identity.NewAuthority("test", period())
	require.NoError(t, err)
	a, err := identity.OpenAuthority(pair)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), pair.Certificate, 0o600))
	return &authority{t, dir, a}
}

// write writes a pair as a tool would that replaces files, and makes sure that its time
// is another one.
func (a *authority) write(name string, p identity.Pair, err error) secure.Files {
	a.t.Helper()
	require.NoError(a.t, err)
	f := secure.Files{Authority: filepath.Join(a.dir, "ca.crt"), Certificate: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
	f.Clients = f.Authority
	for path, content := range map[string][]byte{f.Certificate: p.Certificate, f.Key: p.Key} {
		require.NoError(a.t, os.WriteFile(path+".new", content, 0o600))
		require.NoError(a.t, os.Rename(path+".new", path))
	}
	return f
}

func (a *authority) node(name string) secure.Files {
	p, err := a.Node(name, []string{"127.0.0.1", ownHost}, period())
	return a.write("node-"+name, p, err)
}

func (a *authority) user(name string) secure.Files {
	p, err := a.User(name, period())
	return a.write("user-"+name, p, err)
}

func (a *authority) credentials(name string) *secure.Credentials {
	a.t.Helper()
	c, err := secure.OpenNode(name, a.node(name), nil)
	require.NoError(a.t, err)
	return c
}

func (a *authority) dial(t testing.TB, addresses ...string) *client.Client {
	t.Helper()
	f := a.user("alice")
	c, err := client.Dial(addresses, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	return c
}

// get asks the HTTP port of a node, as the user of the files or as nobody.
func (a *authority) get(t testing.TB, address, path string, f secure.Files) (code int, body string, err error) {
	t.Helper()
	c, err := secure.OpenClient(f)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: c.Client("127.0.0.1")}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get("https://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// refusals are those of another node's identity that a node has counted, with those in
// the handshake.
func (a *authority) refusals(t *testing.T, n *Server) (all int) {
	t.Helper()
	code, text, err := a.get(t, n.HTTP(), "/metrics", a.user("alice"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	for _, found := range regexp.MustCompile(`(?m)^strandline_(?:peer_identity_refused_total|connections_refused_total\{port="grpc",reason="handshake failed"\}) (\d+)$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		all += n
	}
	return all
}

func secured(t testing.TB, a *authority, directory string, names ...string) []Options {
	t.Helper()
	nodes := trio(t, directory, names...)
	for i := range nodes {
		nodes[i].Credentials = a.credentials(names[i])
	}
	return nodes
}

func TestNodesWithCertificatesServeThoseWhoShowThem(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cluster, err := StartCluster(t.Context(), secured(t, a, t.TempDir(), "a", "b", "c"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	first := cluster.Nodes[0]

	c := a.dial(t, first.GRPC())
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(t, err)
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("one"))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, c.Close())

	f := a.user("alice")
	shown, err := secure.OpenClient(f)
	require.NoError(t, err)
	k, err := kgo.NewClient(kgo.SeedBrokers(first.Kafka()), kgo.DialTLSConfig(shown.Client("127.0.0.1")), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, err)
	require.NoError(t, k.ProduceSync(t.Context(), kgo.StringRecord("two")).FirstErr())
	k.Close()

	nobody := secure.Files{Authority: f.Authority}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 401, "/": 200, "/metrics/logs?name=*": 401, "/nothing": 401} {
		code, body, err := a.get(t, first.HTTP(), path, nobody)
		require.NoError(t, err)
		require.Equal(t, want, code, path)
		require.NotContains(t, body, "orders")
	}
	code, _, err := a.get(t, first.HTTP(), "/metrics", f)
	require.NoError(t, err)
	require.Equal(t, 200, code)

	// Nobody else gets a byte out of any port.
	for _, address := range []string{first.GRPC(), first.Kafka(), first.HTTP()} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		text, _ := io.ReadAll(conn)
		require.LessOrEqual(t, len(text), 7, "an alert at most: %q", text)
		require.NoError(t, conn.Close())
	}
	for _, address := range []string{first.GRPC(), first.Kafka()} {
		open, err := secure.OpenClient(nobody)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // the alert is lost if the connection is reset before it is read
			conn, err := tls.Dial("tcp", address, open.Client("127.0.0.1"))
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
			require.Error(t, err)
			return strings.Contains(err.Error(), "certificate required")
		}, time.Minute, time.Millisecond)
	}
	anonymous, err := client.Dial([]string{first.GRPC()}, client.WithCertificates(nobody.Authority, "", ""), client.WithRetryTime(0))
	require.NoError(t, err)
	_, err = anonymous.Admin().ListLogs(t.Context(), false)
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.ErrorContains(t, err, "certificate required")
	require.NoError(t, anonymous.Close())
}

// intruder asks to be taken in as node c, with a token that is good.
func intruder(t *testing.T, token, join string) Options {
	t.Helper()
	o := alone(t, t.TempDir())
	o.Node.Name, o.Node.FormAlone = "c", false
	o.Node.JoinToken, o.Node.Join = token, []string{join}
	return o
}

func TestANodeThatDoesNotProveItsNameIsNotTakenIn(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	cluster, err := StartCluster(t.Context(), secured(t, a, t.TempDir(), "a", "b"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	first := cluster.Nodes[0]
	c := a.dial(t, first.GRPC())
	defer c.Close()
	token, err := c.Admin().CreateToken(t.Context(), time.Hour, true)
	require.NoError(t, err)

	asUser := func(f secure.Files) func(context.Context, string) (net.Conn, error) {
		open, err := secure.OpenClient(f)
		require.NoError(t, err)
		return func(ctx context.Context, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: open.Client("127.0.0.1")}).DialContext(ctx, "tcp", address)
		}
	}
	trusting := other.node("c")
	trusting.Authority = filepath.Join(a.dir, "ca.crt")
	for name, change := range map[string]func(*Options){
		"another authority":          func(o *Options) { o.Node.Dial = asUser(trusting) },
		"a user of this cluster":     func(o *Options) { o.Node.Dial = asUser(a.user("c")) },
		"another node's certificate": func(o *Options) { o.Credentials = a.credentials("d") },
		"no certificate":             func(o *Options) { o.Node.Dial = asUser(secure.Files{Authority: trusting.Authority}) },
		"no encryption":              func(*Options) {},
	} {
		before := a.refusals(t, first)
		o := intruder(t, token.Token, first.GRPC())
		change(&o)
		s, err := Start(o)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return a.refusals(t, first) > before }, time.Minute, 10*time.Millisecond, name)
		require.True(t, s.Waiting(), name)
		require.NoError(t, s.Close())
	}
	o := intruder(t, token.Token, first.GRPC())
	o.Credentials = a.credentials("c")
	s, err := Start(o)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !s.Waiting() }, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())
}

// A cluster that runs gets certificates, one node at a time, while clients that know
// none append; then those that do; then the others are shut out.
func TestARunningClusterIsSecuredWithoutAFailedAppend(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	nodes := trio(t, t.TempDir(), "a", "b", "c")
	for i := range nodes {
		o := &nodes[i]
		o.CloseListeners()
		o.GRPC, o.Kafka, o.HTTP = listenAt(t, ownPort), listenAt(t, ownPort), listenAt(t, ownPort)
		o.Node.Peers[o.Node.Name] = o.GRPC.Addr().String()
	}
	cluster, err := StartCluster(t.Context(), nodes)
	require.NoError(t, err)
	running := cluster.Nodes
	addresses := []string{running[0].GRPC(), running[1].GRPC(), running[2].GRPC()}
	restartAll := func(change func(o *Options)) {
		t.Helper()
		for i, o := range nodes {
			require.NoError(t, running[i].Close())
			for _, l := range []*net.Listener{&o.GRPC, &o.Kafka, &o.HTTP} {
				*l = listenAt(t, (*l).Addr().String())
			}
			o.Credentials = a.credentials(o.Node.Name)
			change(&o)
			running[i], err = Start(o)
			require.NoError(t, err)
			ready(t, running)
		}
	}
	open, err := client.Dial(addresses, client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	encrypted := a.dial(t, addresses...)
	_, err = open.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(t, err)

	plain := appending(t, open)
	restartAll(func(o *Options) { o.Insecure = true })
	shown := appending(t, encrypted)
	plain()
	restartAll(func(*Options) {})
	shown()
	require.NoError(t, open.Close())
	require.NoError(t, encrypted.Close())
	late, err := client.Dial(addresses, client.WithRetryTime(0))
	require.NoError(t, err)
	_, err = late.Admin().ListLogs(t.Context(), false)
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.NoError(t, late.Close())
	for _, n := range running {
		require.NoError(t, n.Close())
	}
	close(cluster.failed)
}

// ready waits until all nodes serve all logs.
func ready(t *testing.T, nodes []*Server) {
	t.Helper()
	for _, n := range nodes {
		require.Eventually(t, func() bool { return n.node.Ready() == nil }, time.Minute, time.Millisecond)
	}
}

// appending appends all the time until the function that it returns is called, which
// fails the test if an append did.
func appending(t testing.TB, c *client.Client) (stop func()) {
	t.Helper()
	p, err := c.Producer(t.Context(), "orders")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var failed error
	count := 0
	work.Go(func() {
		for ctx.Err() == nil && failed == nil {
			if _, err := p.Append(t.Context(), []byte("record")); err != nil {
				failed = errors.Join(failed, err)
			}
			count++
		}
	})
	return func() {
		t.Helper()
		cancel()
		work.Wait()
		require.NoError(t, failed)
		require.Positive(t, count)
		require.NoError(t, p.Close(t.Context()))
	}
}

func TestCertificatesChangeWithoutAFailedCall(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	s, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	steady := a.dial(t, s.GRPC())
	_, err = steady.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	stop := appending(t, steady)
	serials := map[string]bool{}
	for range 5 {
		a.node("a")
		require.NoError(t, o.Credentials.Reload())
		c := a.dial(t, s.GRPC()) // with a new certificate of its own, too
		_, err := c.Admin().ListLogs(t.Context(), false)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		f := a.user("alice")
		open, err := secure.OpenClient(f)
		require.NoError(t, err)
		conn, err := tls.Dial("tcp", s.Kafka(), open.Client("127.0.0.1"))
		require.NoError(t, err)
		serials[conn.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
		require.NoError(t, conn.Close())
	}
	require.Len(t, serials, 5)
	stop()
	require.NoError(t, steady.Close())
}
