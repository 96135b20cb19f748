package server

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/client"
	"strandline.dev/internal/transport/secure"
)

// BenchmarkARevocationUnderLoad is the time until the last of three nodes refuses whoever was taken out, and has ended
// what was open: a token that was revoked, a user that was removed, a password that is another now, a node that was
// removed. Open are reads over gRPC and HTTP, and connections of all ports. Others append meanwhile, and all nodes get other certificates. It fails if a call of the others does.
//
//	go test ./internal/server -run - -bench ARevocationUnderLoad -benchtime 20x
func BenchmarkARevocationUnderLoad(b *testing.B) {
	for kind, open := range map[string]func(*revocation, *testing.B) (revoke func(), ended []func() bool){
		"token": (*revocation).token, "user": (*revocation).user, "password": (*revocation).password, "node": (*revocation).node,
	} {
		b.Run(kind, func(b *testing.B) { benchmarkRevocation(b, open) })
	}
}

func benchmarkRevocation(b *testing.B, open func(*revocation, *testing.B) (func(), []func() bool)) {
	a := newAuthority(b)
	options := secured(b, a, b.TempDir(), "a", "b", "c")
	cluster, err := StartCluster(b.Context(), options)
	require.NoError(b, err)
	defer func() { require.NoError(b, cluster.Close()) }()
	r := &revocation{authority: a, nodes: cluster.Nodes}
	for _, n := range cluster.Nodes {
		r.addresses = append(r.addresses, n.GRPC())
	}
	alice := a.dial(b, r.addresses...)
	defer alice.Close()
	_, err = alice.Admin().CreateLog(b.Context(), "orders", client.LogConfig{Replicas: 3})
	require.NoError(b, err)
	r.admin = enforced(b, alice)
	heard(b, cluster.Nodes...)
	var stop []func()
	for range 4 {
		c := a.dial(b, r.addresses...)
		defer c.Close()
		stop = append(stop, appending(b, c))
	}
	var longest time.Duration
	for b.Loop() {
		revoke, ended := open(r, b)
		for i, n := range options {
			a.node(n.Node.Name)
			require.NoError(b, options[i].Credentials.Reload())
		}
		revoke()
		began := time.Now()
		took := make([]time.Duration, len(ended))
		var all sync.WaitGroup
		for i, end := range ended {
			all.Go(func() {
				for !end() && time.Since(began) < time.Minute {
				}
				took[i] = time.Since(began)
			})
		}
		all.Wait()
		for _, t := range took {
			longest = max(longest, t)
		}
		// A client that is new believes the certificates that are new.
		fresh := a.dial(b, r.addresses...)
		_, err = fresh.Admin().ListLogs(b.Context(), false)
		require.NoError(b, err)
		require.NoError(b, fresh.Close())
		for _, c := range r.opened {
			_ = c.Close() // most have ended
		}
		r.opened = nil
	}
	for _, s := range stop {
		s()
	}
	b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
}

// revocation opens at every node what is to end.
type revocation struct {
	*authority
	nodes     []*Server
	addresses []string
	admin     *client.Admin
	opened    []io.Closer // in this round
	rounds    int
}

func (r *revocation) granted(b *testing.B) {
	b.Helper()
	require.NoError(b, r.admin.Access().AddGrants(b.Context(), client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"read"}}))
}

func (r *revocation) token(b *testing.B) (revoke func(), ended []func() bool) {
	r.granted(b)
	text, token, err := r.admin.Access().CreateAccessToken(b.Context(), "bob", time.Hour)
	require.NoError(b, err)
	ended = append(r.calls(b, func(address string) *client.Client { return r.withToken(b, text, address) }), r.overHTTP(b, text)...)
	ended = append(ended, r.disconnected(b, "user/bob"))
	return func() { require.NoError(b, r.admin.Access().RevokeAccessToken(b.Context(), token.ID)) }, ended
}

func (r *revocation) user(b *testing.B) (revoke func(), ended []func() bool) {
	r.granted(b)
	password, _, err := r.admin.Access().PutUser(b.Context(), "bob", "")
	require.NoError(b, err)
	text, _, err := r.admin.Access().CreateAccessToken(b.Context(), "bob", time.Hour)
	require.NoError(b, err)
	ended = append(r.calls(b, func(address string) *client.Client { return r.withToken(b, text, address) }), r.logins(b, password)...)
	ended = append(append(ended, r.overHTTP(b, text)...), r.disconnected(b, "user/bob"))
	return func() { require.NoError(b, r.admin.Access().RemoveUser(b.Context(), "bob")) }, ended
}

func (r *revocation) password(b *testing.B) (revoke func(), ended []func() bool) {
	password, _, err := r.admin.Access().PutUser(b.Context(), "bob", "")
	require.NoError(b, err)
	return func() {
		_, existed, err := r.admin.Access().PutUser(b.Context(), "bob", "")
		require.NoError(b, err)
		require.True(b, existed)
	}, r.logins(b, password)
}

func (r *revocation) node(b *testing.B) (revoke func(), ended []func() bool) {
	r.rounds++
	name := fmt.Sprint("d", r.rounds)
	join, err := r.admin.CreateToken(b.Context(), time.Hour, true)
	require.NoError(b, err)
	o := alone(b, b.TempDir())
	o.Node.Name, o.Node.FormAlone, o.Credentials = name, false, r.credentials(name)
	o.Node.JoinToken, o.Node.Join = join.Token, r.addresses[:1]
	joined, err := Start(o)
	require.NoError(b, err)
	require.Eventually(b, func() bool { return !joined.Waiting() }, time.Minute, time.Millisecond)
	r.opened = append(r.opened, joined)
	files := r.authority.node(name)
	shown, err := secure.OpenClient(files)
	require.NoError(b, err)
	ended = r.calls(b, func(address string) *client.Client {
		c, err := client.Dial([]string{address}, client.WithCertificates(files.Authority, files.Certificate, files.Key), client.WithRetryTime(0))
		require.NoError(b, err)
		return c
	})
	for _, n := range r.nodes {
		conn, err := tls.Dial("tcp", n.Kafka(), shown.Client("127.0.0.1"))
		require.NoError(b, err)
		_, code := askKafka(b, conn, kmsg.NewPtrApiVersionsRequest())
		require.Zero(b, code)
		ended = append(ended, r.closes(conn))
	}
	ended = append(ended, r.disconnected(b, "node/"+name))
	return func() { require.NoError(b, r.admin.RemoveNode(b.Context(), name)) }, ended
}

// disconnected waits until no node has a connection of a principal.
func (r *revocation) disconnected(b *testing.B, principal string) func() bool {
	return func() bool {
		all, err := r.admin.ListConnections(b.Context(), "")
		return err == nil && !slices.ContainsFunc(all, func(c client.Connection) bool { return c.Principal == principal })
	}
}

// overHTTP are reads as JSON and as events that follow the log at each node.
func (r *revocation) overHTTP(b *testing.B, token string) (ended []func() bool) {
	b.Helper()
	shown, err := secure.OpenClient(secure.Files{Authority: r.authority.node("a").Authority})
	require.NoError(b, err)
	for _, n := range r.nodes {
		for _, ask := range []string{
			"GET /streams/orders?offset=now&live=sse HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n\r\n",
			"POST /strandline.v1.LogService/Read HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token +
				"\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n" + `{"log":"orders","follow":true}`,
		} {
			conn, err := tls.Dial("tcp", n.HTTP(), shown.Client("127.0.0.1"))
			require.NoError(b, err)
			_, err = io.WriteString(conn, ask)
			require.NoError(b, err)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(b, err)
			require.Equal(b, http.StatusOK, answer.StatusCode)
			ended = append(ended, r.closes(conn))
		}
	}
	return ended
}

// calls are those of a client of each node, and a stream of each that is open.
func (r *revocation) calls(b *testing.B, dial func(address string) *client.Client) (ended []func() bool) {
	b.Helper()
	for _, address := range r.addresses {
		c := dial(address)
		r.opened = append(r.opened, c)
		require.Eventually(b, func() bool {
			_, err := c.Admin().Info(b.Context(), "orders")
			return err == nil
		}, time.Minute, time.Millisecond)
		reader, err := c.Reader(b.Context(), "orders", client.WithStartOffset(0), client.WithFollow())
		require.NoError(b, err)
		_, err = reader.Next(b.Context())
		require.NoError(b, err)
		refused := func(err error) bool { return errors.Is(err, client.ErrUnauthenticated) }
		ended = append(ended, func() bool {
			_, err := c.Admin().Info(b.Context(), "orders")
			return refused(err)
		}, func() bool {
			_, err := reader.Next(b.Context())
			return refused(err)
		})
	}
	return ended
}

// logins are Kafka connections of bob to each node, and another login there.
func (r *revocation) logins(b *testing.B, password string) (ended []func() bool) {
	b.Helper()
	shown, err := secure.OpenClient(secure.Files{Authority: r.authority.node("a").Authority})
	require.NoError(b, err)
	for _, n := range r.nodes {
		login := func() (conn net.Conn, ok bool) {
			conn, err := tls.Dial("tcp", n.Kafka(), shown.Client("127.0.0.1"))
			require.NoError(b, err)
			hello := kmsg.NewPtrSASLHandshakeRequest()
			hello.Version, hello.Mechanism = 1, "PLAIN"
			if answered, code := askKafka(b, conn, hello); !answered || code != 0 {
				return conn, false
			}
			proof := kmsg.NewPtrSASLAuthenticateRequest()
			proof.Version, proof.SASLAuthBytes = 1, []byte("\x00bob\x00"+password)
			answered, code := askKafka(b, conn, proof)
			return conn, answered && code == 0
		}
		var conn net.Conn
		require.Eventually(b, func() (ok bool) { // the node may be yet to hear of the password
			conn, ok = login()
			return ok
		}, time.Minute, 50*time.Millisecond)
		ended = append(ended, r.closes(conn), func() bool {
			another, ok := login()
			_ = another.Close()
			return !ok
		})
	}
	return ended
}

// closes waits until the other end closes a connection.
func (r *revocation) closes(conn net.Conn) func() bool {
	r.opened = append(r.opened, conn)
	return func() bool {
		_, err := io.Copy(io.Discard, conn)
		return err == nil || !errors.Is(err, net.ErrClosed)
	}
}

// askKafka sends a request, whose answer begins with an error code, and returns that. The connection may have ended.
func askKafka(t testing.TB, conn net.Conn, q kmsg.Request) (answered bool, code int16) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
	if err != nil {
		return false, 0
	}
	answer := make([]byte, 10)
	if _, err = io.ReadFull(conn, answer); err != nil {
		return false, 0
	}
	_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(answer))-6)
	return err == nil, int16(binary.BigEndian.Uint16(answer[8:]))
}
