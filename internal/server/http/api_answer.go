package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

// marshaler is the JSON of protobuf. A request is read by body, see there.
type marshaler struct{ runtime.JSONPb }

// NewDecoder implements runtime.Marshaler.
func (m *marshaler) NewDecoder(from io.Reader) runtime.Decoder {
	if b, ok := from.(*body); ok {
		return b
	}
	return m.JSONPb.NewDecoder(from)
}

// Marshal implements runtime.Marshaler. An error within a stream looks like any other.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	if line, ok := v.(map[string]proto.Message); ok {
		if s, ok := line["error"].(*spb.Status); ok {
			return json.Marshal(map[string]Failure{"error": failureOf(status.FromProto(s))})
		}
	}
	return m.JSONPb.Marshal(v)
}

// StreamContentType implements runtime.StreamContentType.
func (m *marshaler) StreamContentType(any) string { return "application/x-ndjson" }

// ContentType implements runtime.Marshaler.
func (m *marshaler) ContentType(any) string { return "application/json" }

// writeTime is how long a client of a stream may take to accept one message.
const writeTime = 30 * time.Second

type answerKey struct{}

// answer writes what a call is answered with. The text of a message is paid for out of the node's memory until the
// client has taken it. A client that is gone ends the call.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	held    share // of api.sent
	body    *body
	stream  bool // of messages
	wrote   bool
	broken  bool
}

func newAnswer(w http.ResponseWriter, b *body) *answer {
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), body: b, held: share{of: b.api.sent, whose: b.held.whose}}
	b.control = a.control
	return a
}

// lasts prepares for a call that lasts: its client may send and receive at the same time, for as long as it likes.
func (a *answer) lasts() {
	_ = a.control.EnableFullDuplex() // HTTP/1.1 alone needs it
	_ = a.control.SetReadDeadline(time.Time{})
	_ = a.control.SetWriteDeadline(time.Time{}) // each message has its own
}

// reserve pays for the text of a message. It is a runtime.WithForwardResponseOption, and called without a message before
// a stream of them.
func reserve(ctx context.Context, _ http.ResponseWriter, m proto.Message) error {
	a, _ := ctx.Value(answerKey{}).(*answer)
	if a == nil {
		return nil
	}
	if !a.body.many {
		a.body.held.release() // its one request has been decoded, on this goroutine
	}
	if m == nil {
		if !a.body.many {
			a.lasts()
		}
		return nil
	}
	if err := a.held.take(ctx, int64(proto.Size(m))*textCost); err != nil {
		return rpc.StatusOf(ctx, err)
	}
	return nil
}

// Write implements http.ResponseWriter. It returns no error, which the gateway would log: the call ends.
func (a *answer) Write(text []byte) (int, error) {
	if a.broken {
		return len(text), nil
	}
	a.wrote = true
	if a.stream {
		_ = a.control.SetWriteDeadline(time.Now().Add(writeTime))
	}
	if _, err := a.ResponseWriter.Write(text); err != nil {
		a.isBroken()
	}
	return len(text), nil
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.wrote = true
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		a.Header().Set("Connection", "close") // see once
	}
	a.ResponseWriter.WriteHeader(status)
}

// FlushError is called by http.ResponseController after each message of a stream.
func (a *answer) FlushError() error {
	defer a.held.release()
	if err := a.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		a.isBroken()
	}
	return nil
}

func (a *answer) isBroken() {
	a.broken = true
	a.body.cancel()
}

// end writes the reason if not all requests of a stream were read, after the answers to the earlier
// ones.
func (a *answer) end() {
	refusal := a.body.end()
	if !a.stream || !a.body.many || refusal == nil {
		return
	}
	a.ResponseWriter.Header().Set("Connection", "close") // the remaining requests are not read
	if !a.wrote {
		refuse(a, refusal)
		return
	}
	line, _ := json.Marshal(map[string]Failure{"error": failureOf(status.Convert(refusal))}) // of strings
	_, _ = a.Write(append(line, '\n'))
}

// Failure is an error as JSON: what a program needs to know of it, and a text for people.
type Failure struct {
	// Code is the name of the code of gRPC, such as NOT_FOUND.
	Code string `json:"code"`
	// Reason is what a program should look at, such as LOG_NOT_FOUND: docs/errors.md.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Retryable: the same call may succeed later.
	Retryable bool `json:"retryable"`
	// Outcome is not_done, maybe_done or done.
	Outcome string `json:"outcome"`
	// Metadata is what the reason is about.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Hold is the hold that it is about.
	Hold json.RawMessage `json:"hold,omitempty"`
}

func failureOf(s *status.Status) Failure {
	f := Failure{Code: code.Code(s.Code()).String(), Message: s.Message(), Outcome: record.MaybeDone.String()}
	switch s.Code() {
	case codes.InvalidArgument, codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		f.Outcome = record.NotDone.String()
	}
	f.Reason = f.Code
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			f.Reason, f.Metadata = d.GetReason(), d.GetMetadata()
			f.Retryable, _ = strconv.ParseBool(f.Metadata["retryable"])
			f.Outcome = record.ParseOutcome(f.Metadata["outcome"]).String()
			delete(f.Metadata, "retryable")
			delete(f.Metadata, "outcome")
		case *strandlinev1.Hold:
			f.Hold, _ = protojson.Marshal(d) // a hold that was encoded before
		}
	}
	return f
}

// httpError is a refusal with a status of HTTP that is not the one of its code.
type httpError struct {
	status  int
	refusal *record.Refusal
}

func (e *httpError) Error() string { return e.refusal.Error() }

// failed is a runtime.ErrorHandlerFunc. The gateway makes another error of why a request was not decoded.
func failed(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	if a, _ := ctx.Value(answerKey{}).(*answer); a != nil {
		if refusal := a.body.end(); refusal != nil {
			err = refusal
			w.Header().Set("Connection", "close") // the rest of the request is not read
		}
	}
	refuse(w, err)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	var as *httpError
	if errors.As(err, &as) {
		err = rpc.StatusOf(context.Background(), as.refusal)
	}
	s := status.Convert(err)
	number := runtime.HTTPStatusFromCode(s.Code())
	if as != nil {
		number = as.status
	}
	h := w.Header()
	h.Del("Trailer")
	h.Del("Transfer-Encoding")
	h.Set("Content-Type", "application/json")
	if s.Code() == codes.Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if number == http.StatusMethodNotAllowed && h.Get("Allow") == "" {
		h.Set("Allow", http.MethodPost)
	}
	text, _ := json.Marshal(failureOf(s)) // of strings
	w.WriteHeader(number)
	_, _ = w.Write(append(text, '\n'))
}
