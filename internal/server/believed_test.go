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

	"strandline.dev/client"
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
			n, err := Start(alone(t, t.TempDir()))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, n.Close()) })
			anybody, err := client.Dial([]string{n.GRPC()})
			require.NoError(t, err)
			defer anybody.Close()
			_, err = anybody.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
			require.NoError(t, err)
			tokens, ids := map[string]string{}, map[string]string{}
			for _, user := range []string{"alice", "bob", "carol"} {
				var token client.AccessToken
				tokens[user], token, err = anybody.Admin().Access().CreateAccessToken(t.Context(), user, time.Hour)
				require.NoError(t, err)
				ids[user] = token.ID
			}
			_, _, err = anybody.Admin().Access().PutUser(t.Context(), "bob", "")
			require.NoError(t, err)
			enforced(t, anybody, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read"}},
				client.Grant{Principal: "user/carol", Object: "log/orders", Rights: []string{"append", "read"}})
			alice, err := client.Dial([]string{n.GRPC()}, client.WithToken(tokens["alice"]))
			require.NoError(t, err)
			defer alice.Close()

			bobs, carols := n.opens(t, tokens["bob"]), n.opens(t, tokens["carol"])
			before := connectionsOf(t, alice, "user/carol")
			require.GreaterOrEqual(t, len(before["http"]), len(carols))
			require.NotEmpty(t, before["grpc"])
			require.NotEmpty(t, connectionsOf(t, alice, "user/bob")["grpc"])

			require.NoError(t, take(alice.Admin().Access(), ids["bob"]))
			began := time.Now()
			for what, conn := range bobs {
				require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
				_, err := io.Copy(io.Discard, conn)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, what)
			}
			require.Eventually(t, func() bool { return len(connectionsOf(t, alice, "user/bob")) == 0 }, 30*time.Second, 10*time.Millisecond)
			t.Logf("all had ended after %v", time.Since(began))
			after := connectionsOf(t, alice, "user/carol")
			require.Subset(t, after["grpc"], before["grpc"])
			require.Subset(t, after["http"], before["http"])
		})
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
