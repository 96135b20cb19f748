package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"strandline.dev/api/logspec"
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

// What follows a log ends when its caller loses the right to it, on each port: also if the caller keeps other rights on
// the log, and whatever else has changed since it began.
func TestWhatFollowsALogEndsWhenTheRightToItIsRemoved(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]client.Grant{
		"the first change":     nil,
		"after another change": {{Principal: "user/carol", Object: "log/orders", Rights: []string{"append"}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOfAlice(t, "bob")
			alice := n.as("alice").Admin().Access()
			reads, watches := n.reads(t, "bob"), n.watches(t, "bob")
			each := func(of map[string]*followed, do func(f *followed, t *testing.T, what string)) {
				for what, f := range of {
					do(f, t, what)
				}
			}
			allBeat := func(all ...map[string]*followed) {
				defer n.appendsAllTheTime(t)()
				for _, some := range all {
					each(some, (*followed).beatsAnew)
				}
			}
			allBeat(reads, watches)
			if before != nil {
				require.NoError(t, alice.AddGrants(t.Context(), before...))
				allBeat(reads, watches)
			}
			right := func(name string) client.Grant {
				return client.Grant{Principal: "user/bob", Object: "log/orders", Rights: []string{name}}
			}
			require.NoError(t, alice.RemoveGrants(t.Context(), right("read")))
			each(reads, (*followed).endsDenied)
			allBeat(watches)
			p, err := n.as("bob").Producer(t.Context(), "orders")
			require.NoError(t, err)
			_, err = p.Append(t.Context(), []byte("one"))
			require.NoError(t, err)
			require.NoError(t, p.Close(t.Context()))

			require.NoError(t, alice.RemoveGrants(t.Context(), right("append"))) // which includes the right to observe
			each(watches, (*followed).endsDenied)
		})
	}
}

const (
	heartbeat = 100 * time.Millisecond
	tooLong   = 30 * time.Second
)

// appendsAllTheTime appends until stop, so that whoever follows the log sees something.
func (g *ofAlice) appendsAllTheTime(t *testing.T) (stop func()) {
	t.Helper()
	p, err := g.as("alice").Producer(t.Context(), "orders")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var appending sync.WaitGroup
	appending.Go(func() {
		for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-tick {
			if _, err := p.Append(ctx, []byte("x")); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return func() {
		cancel()
		appending.Wait()
		_ = p.Close(context.Background()) // the last one may have no answer
	}
}

// reads are all ways to read a log for as long as one wants.
func (g *ofAlice) reads(t *testing.T, user string) map[string]*followed {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.tokens[user])
	conn := g.grpc(t)
	stream, err := strandlinev1.NewLogServiceClient(conn).Read(ctx, &strandlinev1.ReadRequest{Log: "orders", Follow: true, Heartbeat: durationpb.New(heartbeat)})
	require.NoError(t, err)
	entries, err := logspec.NewLogClient(conn).Read(ctx, &logspec.ReadRequest{NextIndex: 1})
	require.NoError(t, err)
	withoutHTTP2, err := g.as(user).Reader(t.Context(), "orders", client.WithStartOffset(0), client.WithFollow())
	require.NoError(t, err)
	t.Cleanup(func() { _ = withoutHTTP2.Close() })
	get := fmt.Sprintf("GET /streams/orders?offset=now&live=sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", g.tokens[user])
	events := g.lines(t, get)
	const body = `{"log":"orders","follow":true,"heartbeat":"0.1s"}`
	return map[string]*followed{
		"gRPC":    follows(func() error { _, err := stream.Recv(); return err }),
		"logspec": follows(func() error { _, err := entries.Recv(); return err }),
		"without HTTP/2": follows(func() error {
			_, err := withoutHTTP2.Next(t.Context())
			if errors.Is(err, client.ErrPermissionDenied) {
				return status.Error(codes.PermissionDenied, err.Error())
			}
			return err
		}),
		"JSON": follows(g.lines(t, fmt.Sprintf("POST /strandline.v1.LogService/Read HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", g.tokens[user], len(body), body))),
		"events": follows(func() error {
			err := events()
			if err == io.EOF { // there is no place for a code: who calls again gets it
				conn, again := net.Dial("tcp", g.HTTP())
				if again == nil {
					defer conn.Close()
					_, again = io.WriteString(conn, get)
				}
				if again != nil {
					return again
				}
				answer, again := http.ReadResponse(bufio.NewReader(conn), nil)
				if again == nil && answer.StatusCode == http.StatusForbidden {
					return status.Error(codes.PermissionDenied, answer.Status)
				}
			}
			return err
		}),
	}
}

// watches are all ways to watch a log.
func (g *ofAlice) watches(t *testing.T, user string) map[string]*followed {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.tokens[user])
	conn := g.grpc(t)
	info, err := strandlinev1.NewLogServiceClient(conn).WatchInfo(ctx, &strandlinev1.WatchInfoRequest{Log: "orders", MinInterval: durationpb.New(heartbeat)})
	require.NoError(t, err)
	writer, err := strandlinev1.NewLogServiceClient(conn).WatchWriter(ctx, &strandlinev1.WatchWriterRequest{Log: "orders", Interval: durationpb.New(heartbeat)})
	require.NoError(t, err)
	small, err := logspec.NewLogClient(conn).InfoStream(ctx, &logspec.InfoRequest{})
	require.NoError(t, err)
	return map[string]*followed{
		"WatchInfo":   follows(func() error { _, err := info.Recv(); return err }),
		"WatchWriter": follows(func() error { _, err := writer.Recv(); return err }),
		"InfoStream":  follows(func() error { _, err := small.Recv(); return err }),
	}
}

func (s *Server) grpc(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// lines sends a request and returns what reads the next line of its answer. It fails with the code of the refusal that
// a line has.
func (s *Server) lines(t *testing.T, request string) func() error {
	t.Helper()
	conn := connect(t, s.HTTP())
	_, err := io.WriteString(conn, request)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	return func() error {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, "DENIED") {
			return status.Error(codes.PermissionDenied, line)
		}
		return err
	}
}

// followed is what follows a log: what it receives, and the error that ends it.
type followed struct {
	beats chan struct{}
	ended chan error
}

// follows calls next again and again until it fails.
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

// beatsAnew returns after the server has begun to send something and has sent it.
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
