package httpserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/durablestreams"
	"strandline.dev/internal/server/rpc"
)

// streamsPrefix is what the path of each log begins with as a stream of the Durable Streams protocol.
const streamsPrefix = "/streams/"

// readMethod is what a reader of a stream calls, in the eyes of the guard.
const readMethod = "/strandline.v1.LogService/Read"

// serveStream serves reads of a log by that protocol. A caller is admitted as for a read over gRPC.
func (a *api) serveStream(w http.ResponseWriter, q *http.Request) {
	ctx, err := a.admit(a.context(q), readMethod)
	if err != nil {
		w.Header().Set("Connection", "close") // see once
		refuse(w, err)
		return
	}
	if !a.proved(ctx) || q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Connection", "close")
	}
	a.answer(ctx, w, q, readMethod, false, func(answer *answer, q *http.Request) {
		durablestreams.Handler{
			Logs:    strandlinev1.NewLogServiceClient(a.calls),
			Refuse:  refuseAs,
			Reserve: answer.reserve,
			Lasts:   func(context.Context) { answer.stream = true; answer.lasts() },
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
		return record.Refuse(record.Busy, "this node has no memory for more of an answer now")
	}
	return nil
}
