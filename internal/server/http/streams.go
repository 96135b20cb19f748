package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/durablestreams"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

// streamsPrefix is the prefix of the path of each log as a stream of the Durable Streams protocol.
const streamsPrefix = "/streams/"

// serveStream serves a stream. A caller is admitted as for the call of gRPC that does the same.
func (a *api) serveStream(w http.ResponseWriter, q *http.Request) {
	method := durablestreams.Method(q.Method)
	ctx, err := a.admit(a.context(q), method)
	if err != nil {
		w.Header().Set("Connection", "close") // see once
		refuse(w, err)
		return
	}
	if !a.proved(ctx) {
		w.Header().Set("Connection", "close")
	}
	a.answer(ctx, w, q, method, false, func(answer *answer, q *http.Request) {
		durablestreams.Handler{
			Logs:    strandlinev1.NewLogServiceClient(a.calls),
			Catalog: strandlinev1.NewCatalogServiceClient(a.calls),
			Streams: a.streams,
			Refuse:  refuseAs,
			Reserve: answer.reserve,
			Body:    answer.body.whole,
			May:     a.may,
			Able:    a.able,
			Lasts:   func(context.Context) { answer.stream = true; answer.lasts() },
			URL:     urlOf(q),
		}.Serve(answer, q, strings.TrimPrefix(q.URL.Path, streamsPrefix))
	})
}

// refuseAs is refuse with another status than that of the error, unless that is 0.
func refuseAs(w http.ResponseWriter, status int, err error) {
	var r *record.Refusal
	if errors.As(err, &r) {
		if status != 0 {
			refuse(w, &httpError{status, r})
			return
		}
		err = rpc.StatusOf(context.Background(), r)
	}
	refuse(w, err)
}

// reserve pays for a message beside those before it, or in their place.
func (a *answer) reserve(ctx context.Context, m proto.Message, more bool) error {
	if !more {
		return reserve(ctx, a, m)
	}
	if !a.held.grow(int64(proto.Size(m)) * textCost) {
		return record.Refuse(record.Busy, "this node has no memory for the rest of the answer now; try again")
	}
	return nil
}

// may refuses a caller that lacks the right which a method needs on a log.
func (a *api) may(ctx context.Context, method, log string) error {
	if a.callers == nil {
		return nil
	}
	return a.callers.May(guard.CallerOf(ctx), guard.Methods()[method], log)
}

// able reports whether a caller has that right. It is not audited.
func (a *api) able(ctx context.Context, method, log string) bool {
	return a.callers == nil || a.callers.Able(guard.CallerOf(ctx), guard.Methods()[method], log)
}

// urlOf is the URL of a request, without a query.
func urlOf(q *http.Request) string {
	u := url.URL{Scheme: "http", Host: q.Host, Path: q.URL.Path, RawPath: q.URL.RawPath}
	if encrypted, _ := q.Context().Value(encryptedKey{}).(bool); encrypted {
		u.Scheme = "https"
	}
	return u.String()
}

// whole reads a body of at most the given size that is not the JSON of a message. It acquires
// memory for the body and for the number of messages that it may contain.
func (b *body) whole(most, messages int64) ([]byte, error) {
	var text []byte
	for {
		if len(text) == cap(text) {
			grown := min(max(nameWithin, 2*int64(cap(text))), most+1)
			if err := b.pay(grown * textCost); err != nil {
				return nil, err
			}
			text = append(make([]byte, 0, grown), text...)
		}
		n, err := b.from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		var timeout net.Error
		switch {
		case int64(len(text)) > most:
			r := record.Refuse(record.TooLarge, "the body has more than %d bytes", most)
			r.Limit = most
			return nil, r
		case errors.Is(err, io.EOF):
			return text, b.pay(int64(cap(text))*textCost + min(int64(bytes.Count(text, []byte(",")))+1, messages)*2*objectCost)
		case errors.As(err, &timeout) && timeout.Timeout():
			return nil, record.Refuse(record.Invalid, "the body did not arrive in time")
		case err != nil:
			return nil, record.Refuse(record.Invalid, "the body ended early")
		}
	}
}
