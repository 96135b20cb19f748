package guard

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
)

// enforcing is a guard of a node that enforces rights, with user/root as the administrator.
func enforcing(t *testing.T, grants ...access.Grant) *Guard {
	t.Helper()
	n, err := node.Open(settings.Options{DataDir: t.TempDir(), FormAlone: true, GRPCAddress: "self", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	g := New(n, Options{Careful: true})
	require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, grants))
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	return g
}

func userOf(t *testing.T, g *Guard, name string) verbs.Caller {
	t.Helper()
	h, refusal := g.Identify(identity.Principal{Cluster: "c", Kind: identity.User, Name: name}, &net.TCPAddr{}, "")
	require.Nil(t, refusal)
	return verbs.Caller{By: h}
}

// Whose share a new log or session takes is known by who asks for it; those who may administer the cluster take nobody's.
func TestWhatIsCreatedTakesTheShareOfWhoCreatesIt(t *testing.T) {
	g := enforcing(t, access.Grant{Principal: "user/bob", On: access.OfCluster, Rights: access.Create | access.Observe})
	for user, want := range map[string]string{"bob": "user/bob", "root": ""} {
		c := userOf(t, g, user)
		require.Nil(t, g.may(&c, CreateLog, "orders"))
		require.Equal(t, want, c.Creator, user)
		require.NotZero(t, c.PrincipalNumber)
	}
	bob, root := userOf(t, g, "bob"), userOf(t, g, "root")
	require.Nil(t, g.may(&bob, CreateLog, "orders"))
	require.Nil(t, g.may(&root, CreateLog, "orders"))
	require.NotEqual(t, bob.PrincipalNumber, root.PrincipalNumber)
}

// One user connects until it is refused, another still gets in; an administrator sees who is connected, and ends it.
func TestOnePrincipalLeavesHalfOfTheConnectionsToOthers(t *testing.T) {
	g := enforcing(t)
	const most = 16
	ended := map[int]bool{}
	connect := func(n int, user string) (left func(), err error) {
		proved, left := g.Connected("grpc", most, &net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(n)), Port: n}, func() { ended[n] = true })
		if user != "" {
			err = proved(With(t.Context(), userOf(t, g, user).By.(*Holder)))
		}
		return left, err
	}
	lefts := map[int]func(){}
	var err error
	n := 1
	for ; err == nil; n++ {
		lefts[n], err = connect(n, "bob")
	}
	require.Equal(t, 10, n, "the ninth was refused")
	require.EqualError(t, err, "BUSY: user/bob has 8 connections with the grpc port of this node, and the remaining 8 are reserved for others: close unused ones, then try again")
	lefts[9]()
	_, err = connect(10, "carol")
	require.NoError(t, err)
	_, err = connect(11, "")
	require.NoError(t, err)
	proved, _ := g.Connected("kafka", most, &net.TCPAddr{}, func() {})
	require.NoError(t, proved(With(t.Context(), userOf(t, g, "bob").By.(*Holder))), "another port has its own")

	_, _, err = g.ListConnections(t.Context(), userOf(t, g, "bob"))
	require.ErrorContains(t, err, "DENIED")
	all, at, err := g.ListConnections(t.Context(), userOf(t, g, "root"))
	require.NoError(t, err)
	require.Equal(t, g.node.Name(), at)
	require.Len(t, all, 11)
	require.Equal(t, []any{uint64(1), "grpc", "user/bob", "10.0.0.1:1"}, []any{all[0].ID, all[0].Port, all[0].Principal, all[0].From})
	require.Equal(t, []any{"user/carol", ""}, []any{all[8].Principal, all[9].Principal})

	_, err = g.CloseConnections(t.Context(), userOf(t, g, "bob"), all[8].ID, "")
	require.ErrorContains(t, err, "DENIED")
	_, err = g.CloseConnections(t.Context(), userOf(t, g, "root"), 0, "")
	require.ErrorContains(t, err, "INVALID")
	_, err = g.CloseConnections(t.Context(), userOf(t, g, "root"), 99, "")
	require.ErrorContains(t, err, "no connection 99")
	closed, err := g.CloseConnections(t.Context(), userOf(t, g, "root"), all[8].ID, "")
	require.NoError(t, err)
	require.Equal(t, 1, closed)
	require.Equal(t, map[int]bool{10: true}, ended)
	closed, err = g.CloseConnections(t.Context(), userOf(t, g, "root"), 0, "user/bob")
	require.NoError(t, err)
	require.Equal(t, 9, closed, "those of both ports")
	for n := 1; n <= 8; n++ {
		require.True(t, ended[n])
		lefts[n]()
		lefts[n]()
	}
	_, err = connect(12, "bob")
	require.NoError(t, err)
	require.Len(t, g.connections.held, 5)
}

// A connection ends when none of its last callers was believed for a while, and not before: what it has sent is answered.
func TestAConnectionEndsWhenNobodyIsBelievedWhoHasAuthenticatedOnIt(t *testing.T) {
	g := enforcing(t)
	closed := map[string]int{}
	connect := func(what string) (as func(users ...string)) {
		proved, _ := g.Connected("http", 100, &net.TCPAddr{}, func() { closed[what]++ })
		return func(users ...string) {
			for _, user := range users {
				require.NoError(t, proved(With(t.Context(), userOf(t, g, user).By.(*Holder))))
			}
		}
	}
	connect("nobody's")()
	connect("bob's")("bob")
	connect("a proxy's")("carol", "bob")
	connect("a large proxy's")("carol", "dave", "erin", "frank", "bob", "dave", "bob")
	continues := connect("that of one who continues as another")
	continues("bob")
	gone := map[string]bool{"user/bob": true}
	believed := func(h *Holder) bool { return !gone[h.Principal] }
	began := time.Now()
	look := func(after time.Duration) {
		for _, end := range g.connections.unbelieved(believed, began.Add(after)) {
			end()
		}
	}
	const last = farewellTime + answerTime
	look(0)
	look(farewellTime)
	look(last - 1)
	require.Empty(t, closed)
	continues("carol")
	look(last)
	require.Equal(t, map[string]int{"bob's": 1}, closed)
	require.Equal(t, map[holding]int{{"http", ""}: 4, {"http", "user/bob"}: 3, {"http", "user/carol"}: 1}, g.connections.held, "who was the last counts")
	for _, user := range []string{"dave", "erin", "frank"} { // and not carol: she is no longer among the last of the large proxy
		gone["user/"+user] = true
	}
	look(last)
	look(last + farewellTime)
	look(2 * last)
	look(3 * last)
	require.Equal(t, map[string]int{"bob's": 1, "a large proxy's": 1}, closed)
}

// gateway is a connection on which callers with tokens call, and streams of theirs are open.
type gateway struct {
	*testing.T
	guard  *Guard
	proved func(context.Context) error
	ended  int
}

func newGateway(t *testing.T) *gateway {
	w := &gateway{T: t, guard: enforcing(t)}
	w.proved, _ = w.guard.Connected("grpc", 100, &net.TCPAddr{}, func() { w.ended++ })
	return w
}

// calls returns the context of a call with a new token of a user.
func (w *gateway) calls(user string) (_ context.Context, revoke func()) {
	root := userOf(w.T, w.guard, "root")
	text, token, err := w.guard.CreateAccessToken(w.Context(), root, user, time.Hour, nil)
	require.NoError(w, err)
	ctx, err := w.guard.Call(w.Context(), &net.TCPAddr{}, "Bearer "+text)
	require.NoError(w, err)
	require.NoError(w, w.proved(ctx))
	return ctx, func() { require.NoError(w, w.guard.RevokeAccessToken(w.Context(), root, token.ID)) }
}

// A gateway has one stream open for a long time, and many short calls by others, whose tokens do not last: the stream's
// caller is not among the last that authenticated, and its connection stays.
func TestAConnectionStaysOpenWithAStreamOfACallerWhoIsBelieved(t *testing.T) {
	w := newGateway(t)
	ctx, revoke := w.calls("alice")
	stream, end, err := w.guard.Stream(ctx)
	require.NoError(t, err)
	defer end()
	for range keptCallers {
		_, revoke := w.calls("bob")
		revoke()
	}
	at := time.Now()
	look := func() {
		w.guard.endLost(at)
		at = at.Add(lookEvery)
	}
	for range 20 {
		look()
	}
	require.Zero(t, w.ended)
	require.NoError(t, stream.Err())
	revoke()
	for stream.Err() == nil {
		require.Zero(t, w.ended)
		look()
	}
	require.Zero(t, w.ended, "it receives why its stream has ended")
	look()
	require.Equal(t, 1, w.ended)
}

// The client of a stream receives why it ends: the connection lasts until the next look, also after looks that came late.
func TestAStreamEndsBeforeItsConnection(t *testing.T) {
	for name, late := range map[string]time.Duration{"in time": farewellTime, "late": 10 * farewellTime} {
		t.Run(name, func(t *testing.T) {
			w := newGateway(t)
			ctx, revoke := w.calls("bob")
			stream, end, err := w.guard.Stream(ctx)
			require.NoError(t, err)
			defer end()
			revoke()
			began := time.Now()
			look := func(after time.Duration) { w.guard.endLost(began.Add(after)) }
			look(0)
			look(farewellTime - 1)
			require.NoError(t, stream.Err())
			look(late)
			require.ErrorContains(t, context.Cause(stream), "UNAUTHENTICATED")
			look(late + answerTime - 1)
			require.Zero(t, w.ended)
			look(late + answerTime)
			require.Equal(t, 1, w.ended)
			look(late + 10*lookEvery)
			require.Equal(t, 1, w.ended)
		})
	}
}

// Anybody may connect without a word. Such connections are closed for others when the port is full, and take nobody's share.
func TestConnectionsOnWhichNobodyHasAuthenticatedTakeNoShare(t *testing.T) {
	g := enforcing(t)
	const most = 16
	bob := With(t.Context(), userOf(t, g, "bob").By.(*Holder))
	carol := With(t.Context(), userOf(t, g, "carol").By.(*Holder))
	connect := func() func(context.Context) error {
		proved, _ := g.Connected("http", most, &net.TCPAddr{}, func() {})
		return proved
	}
	for range most - 2 {
		connect()
	}
	for range most / 2 {
		require.NoError(t, connect()(bob))
	}
	require.ErrorContains(t, connect()(bob), "user/bob has 8 connections with the http port of this node, and the remaining 8 are")
	shared := connect()
	require.NoError(t, shared(carol))
	require.ErrorContains(t, shared(bob), "the remaining 8 are", "carol's was not of the others once it is bob's")
}

// An administrator sees whose sessions are open, and may close them; nobody else may those of others.
func TestAnAdministratorListsAndClosesSessionsOfOthers(t *testing.T) {
	rights := access.Append
	g := enforcing(t, access.Grant{Principal: "user/bob", On: access.OfLog("orders"), Rights: rights}, access.Grant{Principal: "user/carol", On: access.OfLog("orders"), Rights: rights})
	root, bob, carol := userOf(t, g, "root"), userOf(t, g, "bob"), userOf(t, g, "carol")
	_, err := g.CreateLog(t.Context(), root, "orders", settings.Config{})
	require.NoError(t, err)
	session, err := g.OpenSession(t.Context(), bob, "orders", 0)
	require.NoError(t, err)
	_, _, err = g.ListSessions(t.Context(), carol, "orders", 0)
	require.ErrorContains(t, err, "DENIED")
	all, more, err := g.ListSessions(t.Context(), root, "orders", 0)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, 1)
	require.Equal(t, session.ID, all[0].ID)
	require.Equal(t, "user/bob", all[0].Principal)
	require.ErrorContains(t, g.CloseSession(t.Context(), carol, "orders", session.ID), "belongs to another principal")
	require.NoError(t, g.CloseSession(t.Context(), root, "orders", session.ID))
	all, _, err = g.ListSessions(t.Context(), root, "orders", 0)
	require.NoError(t, err)
	require.Empty(t, all)
}
