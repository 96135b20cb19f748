package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/sequence"
	httpserver "strandline.dev/internal/server/http"
	"strandline.dev/internal/transport/secure"
)

// One user takes all connections that it gets of both ports, another still gets its own, and an administrator sees
// who has them and takes them back.
func TestOneUserLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	options := secured(t, a, t.TempDir(), "a")
	options[0].OpenFiles = 64 // 16 connections of each port, of which gRPC keeps one for calls
	cluster, err := StartCluster(t.Context(), options)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	n := cluster.Nodes[0]
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	_, err = alice.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	admin := enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append"}}, client.Grant{Principal: "user/carol", Object: "log/orders", Rights: []string{"append"}})
	heard(t, n)
	as := func(user string) error {
		f := a.user(user)
		c, err := client.Dial([]string{n.GRPC()}, client.WithCertificates(f.Authority, f.Certificate, f.Key), client.WithRetryTime(0))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Admin().OpenSession(t.Context(), "orders", 0)
		return err
	}
	held := 0
	for err = as("bob"); err == nil && held < 16; err = as("bob") {
		held++
	}
	require.ErrorIs(t, err, client.ErrBusy)
	require.ErrorContains(t, err, "are reserved for others: close unused ones, then try again")
	require.Less(t, held, 8)
	require.NoError(t, as("carol"))

	kafka := func(user string) *tls.Conn {
		shown, err := secure.OpenClient(a.user(user))
		require.NoError(t, err)
		c, err := tls.Dial("tcp", n.Kafka(), shown.Client("127.0.0.1"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	of := func(port, user string) (all []client.Connection) {
		connections, err := admin.ListConnections(t.Context(), "")
		require.NoError(t, err)
		for _, c := range connections {
			if c.Port == port && c.Principal == user {
				all = append(all, c)
			}
		}
		return all
	}
	for i := range 8 {
		kafka("bob")
		require.Eventually(t, func() bool { return len(of("kafka", "user/bob")) == i+1 }, time.Minute, time.Millisecond)
	}
	_, err = kafka("bob").Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "it is closed at once")
	carols := kafka("carol")
	require.Eventually(t, func() bool { return len(of("kafka", "user/carol")) == 1 }, time.Minute, time.Millisecond)

	sessions, err := admin.ListSessions(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, sessions, held+1)
	for _, s := range sessions {
		if s.Principal == "user/bob" {
			require.NoError(t, admin.CloseSession(t.Context(), "orders", client.Session{ID: s.ID}))
		}
	}
	sessions, err = admin.ListSessions(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.Equal(t, "user/carol", sessions[0].Principal)

	require.NoError(t, admin.CloseConnection(t.Context(), "a", of("kafka", "user/carol")[0].ID))
	_, err = carols.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	closed, err := admin.CloseConnectionsOf(t.Context(), "", "user/bob")
	require.NoError(t, err)
	require.GreaterOrEqual(t, closed, 8)
	require.Eventually(t, func() bool { return len(of("kafka", "user/bob")) == 0 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, admin.CloseConnection(t.Context(), "nowhere", 1), client.ErrNoNode)
}

// The HTTP port as well: its connections are those of who has asked by them last.
func TestOneUserLeavesConnectionsOfTheHTTPPortToOthers(t *testing.T) {
	t.Parallel()
	n, err := Start(alone(t, t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	anybody, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer anybody.Close()
	tokens := map[string]string{}
	for _, user := range []string{"alice", "bob", "carol"} {
		tokens[user], _, err = anybody.Admin().Access().CreateAccessToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
	}
	enforced(t, anybody)
	alice, err := client.Dial([]string{n.GRPC()}, client.WithToken(tokens["alice"]))
	require.NoError(t, err)
	defer alice.Close()
	ask := func(conn net.Conn, user string) (status int, answer string) {
		_, err := io.WriteString(conn, "POST /strandline.v1.AccessService/WhoAmI HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+tokens[user]+
			"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(text)
	}
	const half = httpserver.MaxConnections / 2
	var bobs []net.Conn
	for range half {
		bobs = append(bobs, connect(t, n.HTTP()))
		status, answer := ask(bobs[len(bobs)-1], "bob")
		require.Equal(t, http.StatusOK, status, answer)
	}
	status, answer := ask(connect(t, n.HTTP()), "bob")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, answer, "user/bob has 500 connections with the http port of this node")
	status, answer = ask(bobs[0], "bob")
	require.Equal(t, http.StatusOK, status, answer)
	status, answer = ask(connect(t, n.HTTP()), "carol")
	require.Equal(t, http.StatusOK, status, answer)
	status, _ = ask(bobs[0], "carol")
	require.Equal(t, http.StatusOK, status)
	require.Len(t, connectionsOf(t, alice, "user/carol")["http"], 2)
	require.Len(t, connectionsOf(t, alice, "user/bob")["http"], half-1)

	closed, err := alice.Admin().CloseConnectionsOf(t.Context(), "", "user/bob")
	require.NoError(t, err)
	require.Equal(t, half-1, closed)
	_, err = io.Copy(io.Discard, bobs[1])
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Eventually(t, func() bool { return len(connectionsOf(t, alice, "user/bob")) == 0 }, time.Minute, time.Millisecond)
}

// Where connections without a word from four addresses fill the HTTP port, they take no user's share: each new connection
// of a user is answered, at the cost of one of those.
func TestSilentConnectionsLeaveUsersTheirShareOfTheHTTPPort(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	o.Whence = elsewhere
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	anybody, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer anybody.Close()
	bobs, _, err := anybody.Admin().Access().CreateAccessToken(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	enforced(t, anybody)
	connect := func(number int) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(number))}}).Dial("tcp", n.HTTP())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	const greedy = httpserver.MaxConnections / httpserver.MaxConnectionsOfAddress
	for number := 1; number <= greedy; number++ {
		for range httpserver.MaxConnectionsOfAddress {
			connect(number)
		}
	}
	for range 5 {
		bob := connect(greedy + 1)
		require.NoError(t, bob.SetDeadline(time.Now().Add(time.Minute)))
		_, err := io.WriteString(bob, "POST /strandline.v1.AccessService/WhoAmI HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+bobs+
			"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
		r, err := http.ReadResponse(bufio.NewReader(bob), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode)
	}
}

// One user takes all holds of a log that it gets. Another gets its own, and other logs have theirs.
func TestOneUserLeavesHoldsOfALogToOthers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cluster, err := StartCluster(t.Context(), secured(t, a, t.TempDir(), "a"))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	n := cluster.Nodes[0]
	alice := a.dial(t, n.GRPC())
	defer alice.Close()
	for _, log := range []string{"orders", "payments"} {
		_, err = alice.Admin().CreateLog(t.Context(), log, client.LogConfig{})
		require.NoError(t, err)
	}
	enforced(t, alice, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"trim"}},
		client.Grant{Principal: "user/carol", Object: "log/orders", Rights: []string{"trim"}}, client.Grant{Principal: "user/carol", Object: "log/payments", Rights: []string{"trim"}})
	heard(t, n)
	as := func(user string) *client.Admin {
		f := a.user(user)
		c, err := client.Dial([]string{n.GRPC()}, client.WithCertificates(f.Authority, f.Certificate, f.Key))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c.Admin()
	}
	bob, carol := as("bob"), as("carol")
	set := func(who *client.Admin, log, name string) error {
		_, _, err := who.SetHold(t.Context(), log, client.HoldInfo{Name: name, Offset: client.HoldFromStart})
		return err
	}
	held := 0
	for err = set(bob, "orders", "bob-0"); err == nil; err = set(bob, "orders", fmt.Sprint("bob-", held)) {
		held++
	}
	require.ErrorIs(t, err, client.ErrTooLarge)
	require.ErrorContains(t, err, "are reserved for others: release an unused one")
	require.Equal(t, sequence.MaxHolds/2, held)
	require.NoError(t, set(bob, "orders", "bob-0"), "those that it has can be moved")
	require.NoError(t, set(carol, "orders", "backup"))
	require.NoError(t, set(carol, "payments", "backup"))
	info, err := carol.Info(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, info.Holds, held+1, "she sees them")
	require.NoError(t, carol.ReleaseHold(t.Context(), "orders", "bob-0"), "and may release them")
	require.NoError(t, set(bob, "orders", "bob-0"))
}

// elsewhere has connections from 127.1.x.y count for 10.1.x.y: those of this machine are not bounded.
func elsewhere(c net.Conn) net.Addr {
	at := *c.RemoteAddr().(*net.TCPAddr)
	if ip := at.IP.To4(); ip[1] != 0 {
		at.IP = net.IPv4(10, ip[1], ip[2], ip[3])
	}
	return &at
}

// requireOneCloses fails unless the node closes one of some connections in time.
func requireOneCloses(t *testing.T, by time.Time, why string, some ...net.Conn) {
	t.Helper()
	ends := make(chan error, len(some))
	for _, c := range some {
		require.NoError(t, c.SetReadDeadline(by))
		go func() {
			_, err := io.Copy(io.Discard, c)
			ends <- err
		}()
	}
	require.NotErrorIs(t, <-ends, os.ErrDeadlineExceeded, why)
}

// An address takes what it gets of the HTTP port and no more. Where addresses have taken all of it, the oldest
// connection of the greediest is closed for one of an address with fewer: whoever asks whether the node is alive is
// answered.
func TestOneAddressLeavesConnectionsOfTheHTTPPortToOthers(t *testing.T) {
	t.Parallel()
	o := alone(t, t.TempDir())
	o.Whence = elsewhere
	node, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	const machine = 0
	dialer := func(number int) *net.Dialer {
		from := net.IPv4(127, 1, 0, byte(number))
		if number == machine {
			from = net.IPv4(127, 0, 0, 1)
		}
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	}
	connect := func(number int) net.Conn {
		c, err := dialer(number).Dial("tcp", node.HTTP())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	const atOnce = 5 * time.Second // a silent client has 10 s
	requireClosed := func(why string, some ...net.Conn) { requireOneCloses(t, time.Now().Add(atOnce), why, some...) }
	alive := func(number int) {
		client := http.Client{Transport: &http.Transport{DialContext: dialer(number).DialContext, DisableKeepAlives: true}, Timeout: atOnce}
		answer, err := client.Get("http://" + node.HTTP() + "/livez")
		require.NoError(t, err, "address %d asks whether the node is alive", number)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}

	const greedy = httpserver.MaxConnections / httpserver.MaxConnectionsOfAddress
	var oldest []net.Conn
	for number := 1; number <= greedy; number++ {
		oldest = append(oldest, connect(number))
		for range httpserver.MaxConnectionsOfAddress - 1 {
			connect(number)
		}
		requireClosed("an address has its share", connect(number))
		if number < greedy {
			alive(greedy + 1)
		}
	}
	alive(greedy + 1)
	requireClosed("the oldest of an address with the most makes room", oldest...)
	alive(machine)
}
