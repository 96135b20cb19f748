package httpserver

import (
	"context"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"

	strandlinegw "strandline.dev/api/gateway/strandline/v1"
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/durablestreams"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// api serves strandline.v1 as JSON: POST /SERVICE/METHOD with a request, or with one request per
// line if the method accepts a stream. The answer is JSON, with one line per message if it is a
// stream. The translation is generated from the proto. This code admits callers before it decodes
// anything, as the gRPC port does, and limits the memory for text.
type api struct {
	calls   *rpc.Local
	callers Callers
	// certified refuses callers without a certificate or a token where rights are not enforced.
	certified bool
	// texts and sent are the node's memory for requests and for answers.
	texts, sent *budget.Arriving
	gateway     *runtime.ServeMux
	streams     *durablestreams.Streams
}

// services are all of strandline.v1: those of the registered files, see TestEveryCallNeedsTheRightOfItsVerb.
var services = []func(*runtime.ServeMux, grpc.ClientConnInterface) error{
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterLogServiceHandlerClient(context.Background(), m, strandlinev1.NewLogServiceClient(c))
	},
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterSessionServiceHandlerClient(context.Background(), m, strandlinev1.NewSessionServiceClient(c))
	},
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterCatalogServiceHandlerClient(context.Background(), m, strandlinev1.NewCatalogServiceClient(c))
	},
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterClusterServiceHandlerClient(context.Background(), m, strandlinev1.NewClusterServiceClient(c))
	},
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterAccessServiceHandlerClient(context.Background(), m, strandlinev1.NewAccessServiceClient(c))
	},
	func(m *runtime.ServeMux, c grpc.ClientConnInterface) error {
		return strandlinegw.RegisterGroupServiceHandlerClient(context.Background(), m, strandlinev1.NewGroupServiceClient(c))
	},
}

// apiPrefix is the prefix of the path of each method.
const apiPrefix = "/strandline.v1."

func newAPI(o Options) (*api, error) {
	a := &api{calls: o.Calls, callers: o.Callers, certified: o.Identified, texts: o.Texts, sent: o.SentTexts, streams: durablestreams.NewStreams()}
	a.gateway = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &marshaler{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{EmitDefaultValues: true}}}),
		runtime.WithErrorHandler(failed),
		runtime.WithForwardResponseOption(reserve),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }), // see context
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
	)
	for _, register := range services {
		if err := register(a.gateway, a.calls); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// unknownMethod stands for every path that is no method: a refusal is audited with it.
const unknownMethod = "/unknown"

func (a *api) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	method := q.URL.Path
	many, served := a.calls.Sends(method)
	if served = served && strings.HasPrefix(method, apiPrefix); !served {
		method = unknownMethod
	}
	ctx, err := a.admit(a.context(q), method)
	if err != nil {
		w.Header().Set("Connection", "close") // see once
		refuse(w, err)
		return
	}
	if !a.proved(ctx) {
		w.Header().Set("Connection", "close")
	}
	if wrong := misasked(q, served); wrong != nil {
		w.Header().Set("Connection", "close")
		refuse(w, wrong)
		return
	}
	a.answer(ctx, w, q, method, many, func(answer *answer, q *http.Request) {
		if answer.stream = many || isStream(method); many {
			answer.lasts()
		}
		a.gateway.ServeHTTP(answer, q)
		answer.end()
	})
}

// answer serves a call whose caller is admitted.
func (a *api) answer(ctx context.Context, w http.ResponseWriter, q *http.Request, method string, many bool, serve func(*answer, *http.Request)) {
	b := newBody(ctx, a, method, many, q)
	defer func() { _ = b.end() }()
	answer := newAnswer(w, b)
	defer answer.held.release()
	q = q.WithContext(context.WithValue(b.ctx, answerKey{}, answer))
	q.Body = b
	serve(answer, q)
}

// context returns the context of a request with the values that gRPC would add for a call.
func (a *api) context(q *http.Request) context.Context {
	ctx := peer.NewContext(q.Context(), &peer.Peer{Addr: clientAddr{addressOf(q), connOf(q)}})
	sent := metadata.MD{}
	for _, name := range []string{"authorization", "traceparent", "tracestate"} {
		if value := q.Header.Get(name); value != "" {
			sent.Set(name, value)
		}
	}
	return metadata.NewIncomingContext(ctx, sent)
}

// clientAddr is the address of a client whose connection can be closed. It records the callers.
type clientAddr struct {
	net.Addr
	conn net.Conn
}

// Unwrap is the address as the connection knows it.
func (a clientAddr) Unwrap() net.Addr { return a.Addr }

// Disconnect implements rpc.Disconnecter.
func (a clientAddr) Disconnect() {
	if a.conn != nil {
		_ = a.conn.Close()
	}
}

// ProvedBy implements rpc.Prover.
func (a clientAddr) ProvedBy(known context.Context) error {
	if c, counted := a.conn.(*clientConn); counted {
		return c.provedBy(known)
	}
	return nil
}

// admit refuses a caller that may not call a method, before it reads any part of the request.
func (a *api) admit(ctx context.Context, method string) (context.Context, error) {
	ctx, err := a.calls.Admit(ctx, method)
	if err != nil || a.callers == nil || !a.certified || a.callers.Enforced() {
		return ctx, err
	}
	if h, _ := guard.CallerOf(ctx).By.(*guard.Holder); h == nil || h.Principal == "" {
		return ctx, rpc.StatusOf(ctx, record.Refuse(record.Unauthenticated, "this port needs a client certificate"))
	}
	return ctx, nil
}

// proved reports whether the caller has authenticated or does not have to.
func (a *api) proved(ctx context.Context) bool {
	if a.callers == nil || !a.callers.Enforced() {
		return true
	}
	h, _ := guard.CallerOf(ctx).By.(*guard.Holder)
	if h == nil {
		return false
	}
	a.callers.Unproved(ctx, h) // requests that everybody may send, see once
	return h.Principal != ""
}

// misasked returns the error of a request that is not a valid HTTP request for the API. A page in a
// browser cannot send JSON to another site without a preflight request, see Options.Origins.
func misasked(q *http.Request, served bool) *httpError {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	switch {
	case !served:
		return &httpError{http.StatusNotFound, record.Refuse(record.Unsupported, "unknown method: the path must be /SERVICE/METHOD, such as /strandline.v1.LogService/GetInfo")}
	case q.Method != http.MethodPost:
		return &httpError{http.StatusMethodNotAllowed, record.Refuse(record.Unsupported, "a call must be a POST with the request as JSON")}
	case kind != "application/json" && kind != "application/x-ndjson":
		return &httpError{http.StatusUnsupportedMediaType, record.Refuse(record.Invalid, "the request must be JSON, with the header Content-Type: application/json")}
	}
	return nil
}
