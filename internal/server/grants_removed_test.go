package server

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

// A read that follows a log ends when its caller may no longer read, on each port: also if the caller keeps other rights
// on the log, and whatever else has changed since the read began.
func TestAReadInProgressEndsWhenTheRightToReadIsRemoved(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]client.Grant{
		"the first change":     nil,
		"after another change": {{Principal: "user/carol", Object: "log/orders", Rights: []string{"append"}}},
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
			tokens := map[string]string{}
			for _, user := range []string{"alice", "bob"} {
				tokens[user], _, err = anybody.Admin().Access().CreateAccessToken(t.Context(), user, time.Hour)
				require.NoError(t, err)
			}
			enforced(t, anybody, client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"append", "read"}})
			as := func(user string, options ...client.Option) *client.Client {
				c, err := client.Dial([]string{n.GRPC()}, append(options, client.WithToken(tokens[user]))...)
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			alice := as("alice").Admin().Access()

			reads := map[string]*followed{"gRPC": n.followsOverGRPC(t, tokens["bob"]), "JSON": n.followsAsJSON(t, tokens["bob"])}
			r, err := as("bob").Reader(t.Context(), "orders", client.WithStartOffset(0), client.WithFollow(), client.WithHeartbeat(heartbeat))
			require.NoError(t, err)
			defer r.Close()
			withoutHTTP2 := make(chan error, 1)
			go func() {
				_, err := r.Next(t.Context())
				withoutHTTP2 <- err
			}()

			all := func(each func(what string, f *followed)) {
				for what, f := range reads {
					each(what, f)
				}
			}
			all(func(what string, f *followed) { f.beatsAnew(t, what) })
			if before != nil {
				require.NoError(t, alice.AddGrants(t.Context(), before...))
				all(func(what string, f *followed) { f.beatsAnew(t, what) })
			}
			require.NoError(t, alice.RemoveGrants(t.Context(), client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{"read"}}))
			all(func(what string, f *followed) { f.endsDenied(t, what) })
			select {
			case err := <-withoutHTTP2:
				require.ErrorIs(t, err, client.ErrPermissionDenied)
			case <-time.After(tooLong):
				require.Fail(t, "a read without HTTP/2 continues")
			}
			p, err := as("bob").Producer(t.Context(), "orders")
			require.NoError(t, err)
			_, err = p.Append(t.Context(), []byte("one"))
			require.NoError(t, err)
			require.NoError(t, p.Close(t.Context()))
		})
	}
}

const (
	heartbeat = 100 * time.Millisecond
	tooLong   = 30 * time.Second
)

// followed is a read at the end of a log: its heartbeats, and the error that ends it.
type followed struct {
	beats chan struct{}
	ended chan error
}

// follows calls next for each heartbeat until it fails.
func follows(next func() error) *followed {
	f := &followed{make(chan struct{}), make(chan error, 1)}
	go func() {
		defer close(f.beats)
		for {
			err := next()
			if err != nil {
				f.ended <- err
				return
			}
			select {
			case f.beats <- struct{}{}:
			default:
			}
		}
	}()
	return f
}

// beatsAnew returns after the server has begun a heartbeat and sent it.
func (f *followed) beatsAnew(t *testing.T, what string) {
	t.Helper()
	for range 2 {
		if _, open := <-f.beats; !open {
			require.NoError(t, <-f.ended, what)
		}
	}
}

func (f *followed) endsDenied(t *testing.T, what string) {
	t.Helper()
	select {
	case err := <-f.ended:
		require.Equal(t, codes.PermissionDenied, status.Code(err), "%s: %v", what, err)
	case <-time.After(tooLong):
		require.Fail(t, "a read continues", what)
	}
}

func (s *Server) followsOverGRPC(t *testing.T, token string) *followed {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := strandlinev1.NewLogServiceClient(conn).Read(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token),
		&strandlinev1.ReadRequest{Log: "orders", Follow: true, Heartbeat: durationpb.New(heartbeat)})
	require.NoError(t, err)
	return follows(func() error {
		_, err := stream.Recv()
		return err
	})
}

func (s *Server) followsAsJSON(t *testing.T, token string) *followed {
	t.Helper()
	conn, body := connect(t, s.HTTP()), `{"log":"orders","follow":true,"heartbeat":"0.1s"}`
	_, err := fmt.Fprintf(conn, "POST /strandline.v1.LogService/Read HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	return follows(func() error {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, "DENIED") {
			return status.Error(codes.PermissionDenied, line)
		}
		return err
	})
}
