package server

import (
	"crypto/tls"
	"encoding/binary"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/transport/secure"
	"strandline.dev/test/cost"
)

// asNodeBegins connects, sends what a connection between nodes begins with, and returns what it hears until the end.
func asNodeBegins(config *tls.Config, address string, sent []byte) (heard []byte, err error) {
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: config}).Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err = conn.Write(sent); err != nil {
		return nil, err
	}
	heard, _ = io.ReadAll(conn)
	return heard, nil
}

// Where rights are enforced, clients without a certificate are let in, as they may have a token. They are no nodes.
func TestClientsThatBeginAsNodesKeepNoNodeOut(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	nodes := secured(t, a, t.TempDir(), "a", "b")
	for i := range nodes {
		o := &nodes[i]
		o.CloseListeners()
		o.GRPC, o.HTTP = listenAt(t, ownPort), listenAt(t, ownPort)
		o.Node.Peers[o.Node.Name] = o.GRPC.Addr().String()
	}
	cluster, err := StartCluster(t.Context(), nodes)
	require.NoError(t, err)
	running := cluster.Nodes
	defer func() { require.NoError(t, cluster.Close()) }()
	alice := a.dial(t, running[0].GRPC())
	defer alice.Close()
	enforced(t, alice, client.Grant{Principal: "*", Object: "log/*", Rights: []string{"read"}})
	heard(t, running...)

	open, err := secure.OpenClient(secure.Files{Authority: a.node("a").Authority})
	require.NoError(t, err)
	config := open.Client(ownHost)
	answer, err := asNodeBegins(config, running[0].GRPC(), []byte(peer.Magic))
	require.NoError(t, err)
	require.Empty(t, answer)

	var attack sync.WaitGroup
	over := make(chan struct{})
	defer attack.Wait()
	defer close(over)
	attacked := make(chan struct{}, 1024)
	// Of two nodes, the one with the lower id dials.
	status, err := alice.Admin().ClusterStatus(t.Context())
	require.NoError(t, err)
	stays, restarts := 0, 1
	for _, n := range status.Nodes {
		if n.ID > 1 && n.Name == "b" {
			stays, restarts = 1, 0
		}
	}
	const attackers, pause = 260, 2 * time.Second
	for range attackers {
		attack.Go(func() {
			for {
				_, _ = asNodeBegins(config, running[stays].GRPC(), []byte(peer.Magic))
				select {
				case attacked <- struct{}{}:
				default:
				}
				select {
				case <-over:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	for range attackers {
		<-attacked
	}
	o := nodes[restarts]
	require.NoError(t, running[restarts].Close())
	for _, l := range []*net.Listener{&o.GRPC, &o.HTTP} {
		*l = listenAt(t, (*l).Addr().String())
	}
	running[restarts], err = Start(o)
	require.NoError(t, err)
	ready(t, running)
}

// startBetweenNodes starts a node that enforces rights, and returns it with its lines once nothing more comes of that.
func startBetweenNodes(t testing.TB) (*Server, *authority, *countedLines) {
	t.Helper()
	a := newAuthority(t)
	lines := &countedLines{Handler: slog.DiscardHandler, led: make(chan string, 100)}
	o := alone(t, t.TempDir())
	o.Node.Name, o.Credentials, o.Node.Administrator = "a", a.credentials("a"), "user/alice"
	o.Node.Logger = slog.New(lines)
	s, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	alice := a.dial(t, s.GRPC())
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	require.NoError(t, alice.Close())
	heard(t, s)
	for led := ""; led != "orders"; led = <-lines.led { // what the node says of elections is no caller's doing
	}
	return s, a, lines
}

// whatIsNoNodes has what is sent as nodes begin by those that are none, and what they do without it.
func whatIsNoNodes(t testing.TB, s *Server, a *authority, each func(what string, handshake, call func())) {
	t.Helper()
	open, err := secure.OpenClient(secure.Files{Authority: a.node("a").Authority})
	require.NoError(t, err)
	user, err := secure.OpenClient(a.user("bob"))
	require.NoError(t, err)
	for who, config := range map[string]*tls.Config{"anonymous": open.Client("127.0.0.1"), "bob": user.Client("127.0.0.1")} {
		handshake := func() {
			conn, err := tls.Dial("tcp", s.GRPC(), config)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		known := strings.Repeat("1", 10)
		for what, body := range map[string]string{
			"known": `{"known":{` + strings.TrimSuffix(strings.Repeat(`"1`+known+`":{},`, 3000), ",") + "}}",
			"name":  `{"node":{"id":7,"name":"` + strings.Repeat("n", 60<<10) + `"}}`,
		} {
			head := make([]byte, 12)
			binary.LittleEndian.PutUint32(head, peer.OldestVersion)
			binary.LittleEndian.PutUint32(head[4:], uint32(len(body)))
			binary.LittleEndian.PutUint32(head[8:], crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)))
			sent := append(append([]byte(peer.Magic), head...), body...)
			each(who+" "+what, handshake, func() {
				answer, err := asNodeBegins(config, s.GRPC(), sent)
				if err == nil { // else it was closed before it had sent all
					require.Empty(t, answer)
				}
			})
		}
	}
}

// What is no node's hears nothing on the port between nodes, costs little, and writes next to nothing.
func TestWhatIsNoNodesCostsNextToNothingOnThePortBetweenNodes(t *testing.T) {
	s, a, lines := startBetweenNodes(t)
	before, began := len(lines.since(0)), time.Now()
	whatIsNoNodes(t, s, a, func(what string, handshake, call func()) {
		bytes, _ := cost.Of(8, handshake)
		within(t, int(bytes)+mostBytes, what, call)
	})
	lines.fewSince(t, before, began)
}
