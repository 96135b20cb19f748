package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cost"
)

// Everything that a user has open ends when its token is revoked or the user is removed: idle connections, and streams
// that append, on the ports for gRPC, streams without HTTP/2 and HTTP. What another user has open continues.
func TestWhatIsOpenEndsWithTheTokenThatOpenedIt(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*client.Access, string) error{
		"revoked token": func(a *client.Access, id string) error { return a.RevokeAccessToken(t.Context(), id) },
		"removed user":  func(a *client.Access, _ string) error { return a.RemoveUser(t.Context(), "bob") },
	} {
		t.Run(name, func(t *testing.T) {
			withinASecond(t, func(t *testing.T) (took time.Duration) {
				n := nodeOfAlice(t, "bob", "carol")
				alice := n.as("alice")
				_, _, err := alice.Admin().Access().PutUser(t.Context(), "bob", "")
				require.NoError(t, err)

				bobs, carols := n.opens(t, n.tokens["bob"]), n.opens(t, n.tokens["carol"])
				before := connectionsOf(t, alice, "user/carol")
				require.GreaterOrEqual(t, len(before["http"]), len(carols))
				require.NotEmpty(t, before["grpc"])
				require.NotEmpty(t, connectionsOf(t, alice, "user/bob")["grpc"])

				began := time.Now()
				require.NoError(t, take(alice.Admin().Access(), n.ids["bob"]))
				for what, conn := range bobs {
					require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
					_, err := io.Copy(io.Discard, conn)
					require.NotErrorIs(t, err, os.ErrDeadlineExceeded, what)
				}
				require.Eventually(t, func() bool { return len(connectionsOf(t, alice, "user/bob")) == 0 }, 30*time.Second, 10*time.Millisecond)
				took = time.Since(began)
				t.Logf("all had ended after %v", took)
				after := connectionsOf(t, alice, "user/carol")
				require.Subset(t, after["grpc"], before["grpc"])
				require.Subset(t, after["http"], before["http"])
				return took
			})
		})
	}
}

// ofAlice is a node that enforces rights, with a log named orders.
type ofAlice struct {
	*Server
	t           *testing.T
	tokens, ids map[string]string // by user
}

// nodeOfAlice starts a node that alice administers. The other users may append to the log and read it.
func nodeOfAlice(t *testing.T, others ...string) *ofAlice {
	t.Helper()
	o := alone(t, t.TempDir())
	o.LogspecLog = "orders"
	n, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	g := &ofAlice{n, t, map[string]string{}, map[string]string{}}
	anybody, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer anybody.Close()
	_, err = anybody.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	var grants []client.Grant
	for _, user := range append(others, "alice") {
		var token client.AccessToken
		g.tokens[user], token, err = anybody.Admin().Access().CreateAccessToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
		g.ids[user] = token.ID
		if user != "alice" {
			grants = append(grants, client.Grant{Principal: "user/" + user, Object: "log/orders", Rights: []string{"append", "read"}})
		}
	}
	enforced(t, anybody, grants...)
	return g
}

// as returns a client of a user.
func (g *ofAlice) as(user string, options ...client.Option) *client.Client {
	g.t.Helper()
	c, err := client.Dial([]string{g.GRPC()}, append(options, client.WithToken(g.tokens[user]))...)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// withinASecond fails unless a test takes less than a second for what it measures. If a sleep was late meanwhile, the
// machine stood still, and the test is repeated, at most twice.
func withinASecond(t *testing.T, test func(t *testing.T) (took time.Duration)) {
	t.Helper()
	const tooLate = 100 * time.Millisecond
	for again := 2; ; again-- {
		latest := cost.WatchLateness()
		took := test(t)
		late := latest()
		if took < time.Second {
			return
		}
		require.True(t, late >= tooLate && again > 0, "it took %v, and no sleep was more than %v late", took, late)
		t.Logf("repeated, as a sleep was %v late", late)
	}
}

// The client of a stream of appends receives why the stream ends, before its connection does.
func TestAStreamOfAppendsEndsWithUnauthenticated(t *testing.T) {
	t.Parallel()
	n := nodeOfAlice(t, "bob")
	var streams []grpc.BidiStreamingClient[strandlinev1.AppendRequest, strandlinev1.AppendResponse]
	for range 16 { // the connections end together
		conn, err := grpc.NewClient(n.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		stream, err := strandlinev1.NewLogServiceClient(conn).Append(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+n.tokens["bob"]))
		require.NoError(t, err)
		require.NoError(t, stream.Send(&strandlinev1.AppendRequest{Log: "orders", Records: []*strandlinev1.Record{{Value: []byte("x")}}}))
		answer, err := stream.Recv()
		require.NoError(t, err)
		require.NotNil(t, answer.GetAppended())
		streams = append(streams, stream)
	}
	require.NoError(t, n.as("alice").Admin().Access().RevokeAccessToken(t.Context(), n.ids["bob"]))
	for _, stream := range streams {
		_, err := stream.Recv()
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
		require.ErrorContains(t, err, "was revoked")
	}
}

// connectionsOf are the ids of the connections of a principal, by port.
func connectionsOf(t *testing.T, c *client.Client, principal string) map[string][]uint64 {
	t.Helper()
	all, err := c.Admin().ListConnections(t.Context(), "")
	require.NoError(t, err)
	of := map[string][]uint64{}
	for _, one := range all {
		if one.Principal == principal {
			of[one.Port] = append(of[one.Port], one.ID)
		}
	}
	return of
}

// opens has a user open what stays open without anything to do: producers over gRPC and on streams without HTTP/2, and the connections of
// the HTTP port that it returns.
func (s *Server) opens(t *testing.T, token string) map[string]net.Conn {
	t.Helper()
	for _, options := range [][]client.Option{nil, {client.WithStreamsOverGRPC()}} {
		c, err := client.Dial([]string{s.GRPC()}, append(options, client.WithToken(token), client.WithRetryTime(0))...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		p, err := c.Producer(t.Context(), "orders")
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close(context.Background()) }) // it may have ended
		_, err = p.Append(t.Context(), []byte("one"))
		require.NoError(t, err)
	}
	call := func(method, body string) string {
		return fmt.Sprintf("POST /strandline.v1.LogService/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s", method, token, body)
	}
	whole := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }
	begun := `{"log":"orders","records":[{"value":"b25l"}]}` + "\n"
	get := func(query string) string {
		return "GET /streams/orders?offset=now" + query + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	}
	all := map[string]net.Conn{}
	for what, sent := range map[string]string{
		"an idle connection":    call("GetInfo", whole(`{"log":"orders"}`)),
		"a read as JSON":        call("Read", whole(`{"log":"orders","follow":true}`)),
		"an append as JSON":     call("Append", fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(begun), begun)),
		"events of a stream":    get("&live=sse"),
		"a poll of a stream":    get("&live=long-poll"),
		"a stream that is read": get(""),
	} {
		conn := connect(t, s.HTTP())
		_, err := io.WriteString(conn, sent)
		require.NoError(t, err)
		if !strings.Contains(what, "poll") {
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err, what)
			require.Equal(t, http.StatusOK, r.StatusCode, what)
		}
		all[what] = conn
	}
	return all
}
