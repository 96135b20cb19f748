package rpc

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// fakeCallers believe whoever says anything of itself.
type fakeCallers struct{ open bool }

type fakeKey struct{}

func (fakeCallers) Call(ctx context.Context, _ net.Addr, authorization string) (context.Context, error) {
	if authorization == "forged" {
		return nil, record.Refuse(record.Unauthenticated, "forged")
	}
	return context.WithValue(ctx, fakeKey{}, authorization), nil
}

func (fakeCallers) Proved(ctx context.Context) bool {
	said, _ := ctx.Value(fakeKey{}).(string)
	return said != ""
}

func (f fakeCallers) Enforced() bool { return !f.open }

func (f fakeCallers) Admit(ctx context.Context, _ string) error {
	if f.open || f.Proved(ctx) {
		return nil
	}
	return record.Refuse(record.Unauthenticated, "nobody")
}

func (fakeCallers) Connected(string, int, net.Addr, func()) (func(context.Context) error, func()) {
	return func(context.Context) error { return nil }, func() {}
}
func (fakeCallers) AdmitLarge(context.Context, string, int, func() (string, bool)) error { return nil }

func (fakeCallers) Whose(context.Context, net.Addr) string    { return "" }
func (fakeCallers) Slow(context.Context, net.Addr)            {}
func (fakeCallers) SlowRefused(context.Context) (slow func()) { return func() {} }

func (fakeCallers) Stream(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (fakeCallers) PaceCall(context.Context, string, net.Addr) error { return nil }

func says(authorization string) context.Context {
	if authorization == "" {
		return context.Background()
	}
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs(authorizationKey, authorization))
}

func TestARequestIsDecodedForThoseWhoAreAdmitted(t *testing.T) {
	t.Parallel()
	s := New(Options{Callers: fakeCallers{}})
	defer s.Stop(context.Background())
	decoded := 0
	service := s.admitting(&grpc.ServiceDesc{ServiceName: "a.Service", Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return nil, decode(nil)
	}}}})
	call := func(authorization string) error {
		if _, err := s.tap(says(authorization), &tap.Info{FullMethodName: "/a.Service/Call"}); err != nil {
			return err // nothing of the request is received
		}
		_, err := service.Methods[0].Handler(nil, says(authorization), func(any) error { decoded++; return nil }, nil)
		return err
	}
	for _, unknown := range []string{"", "forged"} {
		require.Equal(t, codes.Unauthenticated, status.Code(call(unknown)))
	}
	require.Zero(t, decoded)
	require.NoError(t, call("alice"))
	require.Equal(t, 1, decoded)
}

// admittedFor notes which methods callers are admitted for.
type admittedFor struct {
	fakeCallers
	methods *[]string
}

func (a admittedFor) Admit(_ context.Context, method string) error {
	*a.methods = append(*a.methods, method)
	return nil
}

// What is refused is audited with the name of its method: of one that is not served, with no text of the
// client's.
func TestMethodsThatAreNotServedAreOneToTheCallersRights(t *testing.T) {
	t.Parallel()
	var methods []string
	s := New(Options{Callers: admittedFor{methods: &methods}})
	defer s.Stop(context.Background())
	for _, method := range []string{"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/<1>", "/a/b", "<2>"} {
		_, err := s.tap(t.Context(), &tap.Info{FullMethodName: method})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", unknownMethod, unknownMethod, unknownMethod}, methods)
}

// oneConn is a listener of one connection.
type oneConn struct {
	net.Listener
	conn net.Conn
}

func (l oneConn) Accept() (net.Conn, error) { return l.conn, nil }

func TestAConnectionWhoseClientProvesNothingEnds(t *testing.T) {
	for name, c := range map[string]struct {
		callers       fakeCallers
		authorization string
		ends          bool
	}{
		"nobody": {ends: true}, "forged": {authorization: "forged", ends: true},
		"alice": {authorization: "alice"}, "no rights are enforced": {callers: fakeCallers{open: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := net.Pipe()
				defer client.Close()
				l := &limitedListener{
					Listener: oneConn{conn: server}, limit: 10, open: new(atomic.Int64), inflow: budget.NewInflow(1 << 20), logger: slog.New(slog.DiscardHandler), callers: c.callers, unproved: &Unproved{},
				}
				conn, err := l.Accept()
				require.NoError(t, err)
				s := &Server{options: Options{Callers: c.callers}}
				time.Sleep(proveTime / 2)
				s.identify(peer.NewContext(says(c.authorization), &peer.Peer{Addr: conn.RemoteAddr()}))
				time.Sleep(proveTime)
				synctest.Wait()
				require.Equal(t, c.ends, l.open.Load() == 0)
				require.NoError(t, conn.Close())
			})
		})
	}
}

// received is a stream by which one request has come.
type received struct {
	grpc.ServerStream
	ctx context.Context
}

func (r received) Context() context.Context { return r.ctx }
func (received) RecvMsg(any) error          { return nil }

// What has come of the only request of a call is in no budget: it has to come soon.
func TestTheOnlyRequestOfACallComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Callers: fakeCallers{}})
		defer s.Stop(context.Background())
		service := s.admitting(&grpc.ServiceDesc{ServiceName: "grpc.health.v1.Health", Methods: []grpc.MethodDesc{{MethodName: "Check", Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			return nil, nil
		}}}})
		for method, come := range map[string]func(ctx context.Context) error{
			"/grpc.health.v1.Health/Check": func(ctx context.Context) error {
				_, err := service.Methods[0].Handler(nil, ctx, nil, nil)
				return err
			},
			"/grpc.health.v1.Health/Watch": func(ctx context.Context) error {
				return s.identified(nil, received{ctx: ctx}, "/grpc.health.v1.Health/Watch", func(_ any, stream grpc.ServerStream) error { return stream.RecvMsg(nil) })
			},
		} {
			waiting, err := s.tap(says("alice"), &tap.Info{FullMethodName: method})
			require.NoError(t, err)
			whole, err := s.tap(says("alice"), &tap.Info{FullMethodName: method})
			require.NoError(t, err)
			time.Sleep(requestTime - time.Second)
			require.NoError(t, waiting.Err())
			require.NoError(t, come(whole))
			time.Sleep(time.Hour)
			require.Error(t, waiting.Err(), method)
			require.NoError(t, whole.Err(), method)
		}
		stream, err := s.tap(says("alice"), &tap.Info{FullMethodName: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, stream.Err(), "it may send any number of them, at any time")
	})
}
