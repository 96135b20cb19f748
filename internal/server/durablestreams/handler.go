package durablestreams

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// Handler serves the protocol through the calls of strandline.v1, which check the caller's rights and
// limit its memory and time.
type Handler struct {
	Logs    strandlinev1.LogServiceClient
	Catalog strandlinev1.CatalogServiceClient
	Streams *Streams
	// Refuse answers with an error and an HTTP status; 0 selects the status from the error.
	Refuse func(w http.ResponseWriter, status int, err error)
	// Reserve reserves memory for a message to the client, and releases the previous reservation.
	// With more it keeps that, and returns an error if there is not enough memory.
	Reserve func(ctx context.Context, m proto.Message, more bool) error
	// Body reads the body of the request and reserves memory for it, and for the messages that it may become.
	// Both numbers are limits, of bytes and of messages.
	Body func(most, messages int64) ([]byte, error)
	// May returns an error if the caller lacks the right that a method needs on a log. Able only reports
	// it, without an entry in the audit log.
	May  func(ctx context.Context, method, log string) error
	Able func(ctx context.Context, method, log string) bool
	// Lasts prepares the connection for a long answer.
	Lasts func(ctx context.Context)
	// URL is the request's, without its query.
	URL string
}

// allows lists the HTTP methods of a stream.
const allows = "GET, HEAD, PUT, POST, DELETE"

// Method returns the method of strandline.v1 by which a request with an HTTP method is admitted.
func Method(of string) string {
	switch of {
	case http.MethodPut:
		return createMethod
	case http.MethodPost:
		return appendMethod
	case http.MethodDelete:
		return deleteMethod
	}
	return "/strandline.v1.LogService/Read"
}

const (
	createMethod = "/strandline.v1.CatalogService/CreateLog"
	deleteMethod = "/strandline.v1.CatalogService/DeleteLog"
	appendMethod = "/strandline.v1.LogService/Append"
)

// logOf returns the name of the log of a path: slashes become dots.
func logOf(path string) string { return strings.ReplaceAll(path, "/", ".") }

// Serve answers a request for the stream of a path.
func (h Handler) Serve(w http.ResponseWriter, q *http.Request, path string) {
	// The content type is the creator's: a browser must not run scripts of a stream in this origin.
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	f := h.Streams.use(logOf(path))
	defer h.Streams.release(f)
	var err error
	switch q.Method {
	case http.MethodGet, http.MethodHead:
		err = h.get(w, q, f)
	case http.MethodPut:
		err = h.put(w, q, f)
	case http.MethodPost:
		err = h.post(w, q, f)
	case http.MethodDelete:
		err = h.remove(w, q, f)
	default:
		err = &statusError{http.StatusMethodNotAllowed, record.Refuse(record.Unsupported, "a stream allows only the methods %s", allows)}
	}
	if err == nil {
		return
	}
	as := &statusError{why: err}
	if errors.As(err, &as); as.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allows)
	}
	status := as.status
	switch reasonOf(as.why) {
	case record.TooLarge:
		status = http.StatusRequestEntityTooLarge
	case record.OffsetTrimmed:
		status = http.StatusGone
	}
	h.Refuse(w, status, as.why)
}

// statusError is a refusal whose HTTP status is not the one of its reason.
type statusError struct {
	status int
	why    error
}

func (e *statusError) Error() string { return e.why.Error() }

func invalid(err error) error { return record.Refuse(record.Invalid, "%v", err) }

// noStream refuses a write to a log that is not a stream.
func noStream(found found) error {
	if found == isGone {
		return record.Refuse(record.OffsetTrimmed, "the first records of this stream, which hold its settings, are trimmed")
	}
	return &statusError{http.StatusMethodNotAllowed, record.Refuse(record.Unsupported, "this log was not created as a stream: it can only be read as one")}
}

// state folds the log, calls decide with the state, and returns a copy of it without producers. If the
// stream has expired it returns errExpired, and deletes the log if the caller has the right.
func (h Handler) state(ctx context.Context, f *folded, decide func(*stream)) (stream, found, error) {
	if err := f.look.take(ctx); err != nil {
		return stream{}, 0, err
	}
	found, err := h.fold(ctx, f)
	var s stream
	if f.state != nil {
		s = *f.state
		s.producers = nil
	}
	expired := err == nil && found == isStream && s.expired(time.Now())
	if err == nil && found == isStream && !expired && decide != nil {
		decide(f.state)
	}
	f.look.release()
	if !expired {
		return s, found, err
	}
	if h.Able(ctx, deleteMethod, f.log) {
		_, _ = h.Catalog.DeleteLog(ctx, &strandlinev1.DeleteLogRequest{Name: f.log, LogId: s.id}) // if it fails, the next request tries
	}
	return s, found, errExpired
}

// errExpired refuses requests for a stream that has expired.
var errExpired = record.Refuse(record.LogNotFound, "the stream has expired")
