package durablestreams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

const (
	// pollTime is how long a long poll waits for records.
	pollTime = 20 * time.Second
	// eventsTime is how long events last: then the client comes again with its offset.
	eventsTime = time.Minute
	// maxAnswer is where the records of one answer end that is not a stream of events: it has one record at least.
	maxAnswer = 1 << 20
)

// Handler reads logs for clients of the protocol through the calls of strandline.v1, which check
// the caller's rights and limit its memory and time. A log is a stream of its records as JSON.
type Handler struct {
	Logs strandlinev1.LogServiceClient
	// Refuse answers with an error and an HTTP status; 0 selects the status from the error.
	Refuse func(w http.ResponseWriter, status int, err error)
	// Reserve reserves memory for a message to the client, and releases the previous reservation.
	// With more it keeps that, and returns an error if there is not enough memory.
	Reserve func(ctx context.Context, m proto.Message, more bool) error
	// Lasts prepares the connection for a long answer.
	Lasts func(ctx context.Context)
}

// Serve answers a GET or HEAD for the log with a name.
func (h Handler) Serve(w http.ResponseWriter, q *http.Request, log string) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.Refuse(w, http.StatusMethodNotAllowed, record.Refuse(record.Unsupported, "a log is only read as a stream: GET or HEAD"))
		return
	}
	asked, err := parse(q.URL.Query())
	if err != nil {
		h.Refuse(w, 0, record.Refuse(record.Invalid, "%v", err))
		return
	}
	info, err := h.Logs.GetInfo(q.Context(), &strandlinev1.GetInfoRequest{Log: log})
	if err != nil {
		h.Refuse(w, 0, err)
		return
	}
	a := &answering{Handler: h, w: w, log: info.GetInfo(), cursor: asked.cursor, next: asked.from.offset}
	switch {
	case asked.from.start:
		a.next = a.log.GetStartOffset()
	case asked.from.tail:
		a.next = a.log.GetEndOffset()
	case a.next < a.log.GetStartOffset():
		h.Refuse(w, http.StatusGone, &record.Refusal{Reason: record.OffsetTrimmed, Start: record.Offset(a.log.GetStartOffset()), Detail: fmt.Sprintf("offset %d is trimmed: the log starts at %d", a.next, a.log.GetStartOffset())})
		return
	case a.next > a.log.GetEndOffset():
		h.Refuse(w, 0, &record.Refusal{Reason: record.OffsetBeyondEnd, End: record.Offset(a.log.GetEndOffset()), Detail: fmt.Sprintf("offset %d is beyond the end of the log at %d", a.next, a.log.GetEndOffset())})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	switch {
	case q.Method == http.MethodHead:
		a.next = a.log.GetEndOffset()
		a.headers(true)
	case asked.mode == events:
		a.events(ctx)
	case asked.mode == longPoll && a.next == a.log.GetEndOffset():
		a.poll(ctx)
	default:
		a.catchUp(ctx, q.Header.Get("If-None-Match"), asked)
	}
}

// answering is one answer.
type answering struct {
	Handler
	w      http.ResponseWriter
	log    *strandlinev1.LogInfo
	cursor int64
	next   int64 // offset
}

// headers sets those that say where the answer ends.
func (a *answering) headers(upToDate bool) {
	h := a.w.Header()
	h.Set("Stream-Next-Offset", formatOffset(a.next))
	if upToDate {
		h.Set("Stream-Up-To-Date", "true")
	}
}

func (a *answering) newCursor() string { return nextCursor(time.Now(), a.cursor, rand.Int64()) }

// read begins a read at next.
func (a *answering) read(ctx context.Context, follow bool) (strandlinev1.LogService_ReadClient, error) {
	q := &strandlinev1.ReadRequest{Log: a.log.GetName(), LogId: a.log.GetId(), From: &strandlinev1.ReadRequest_Offset{Offset: a.next}, Follow: follow}
	if follow {
		q.Heartbeat = durationpb.New(pollTime)
	} else {
		q.UntilOffset, q.MaxBytes = proto.Int64(a.log.GetEndOffset()), maxAnswer
	}
	return a.Logs.Read(ctx, q)
}

// catchUp answers with what there is, up to maxAnswer.
func (a *answering) catchUp(ctx context.Context, known string, asked request) {
	text, first := []byte("["), a.next
	if a.next < a.log.GetEndOffset() {
		frames, err := a.read(ctx, false)
		for more := false; err == nil && len(text) < maxAnswer; more = true {
			var frame *strandlinev1.ReadResponse
			if frame, err = frames.Recv(); err != nil {
				break
			}
			if err = a.Reserve(ctx, frame, more); err != nil {
				if more {
					err = nil // the client gets what there was room for
				}
				break
			}
			if text, err = appendRecords(text, frame.GetRecords()); err == nil {
				a.next = frame.GetFirstOffset() + int64(frame.GetRecordCount())
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			a.Refuse(a.w, 0, err)
			return
		}
	}
	a.headers(a.next == a.log.GetEndOffset())
	if asked.mode == longPoll {
		a.w.Header().Set("Stream-Cursor", a.newCursor())
	}
	if !asked.from.tail {
		tag := fmt.Sprintf(`"%d:%d:%d"`, a.log.GetId(), first, a.next)
		a.w.Header().Set("ETag", tag)
		if known == tag {
			a.w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	_, _ = a.w.Write(append(text, ']')) // a client that is gone ends the call
}

// poll waits for records behind the end.
func (a *answering) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	frames, err := a.read(ctx, true)
	for err == nil {
		var frame *strandlinev1.ReadResponse
		if frame, err = frames.Recv(); err != nil || frame.GetRecordCount() == 0 {
			continue
		}
		if err = a.Reserve(ctx, frame, false); err != nil {
			break
		}
		var text []byte
		if text, err = appendRecords([]byte("["), frame.GetRecords()); err != nil {
			break
		}
		a.next = frame.GetFirstOffset() + int64(frame.GetRecordCount())
		a.headers(a.next == frame.GetEndOffset())
		a.w.Header().Set("Stream-Cursor", a.newCursor())
		_, _ = a.w.Write(append(text, ']'))
		return
	}
	if ctx.Err() == nil {
		a.Refuse(a.w, 0, err)
		return
	}
	a.headers(true)
	a.w.Header().Set("Stream-Cursor", a.newCursor())
	a.w.Header().Del("Content-Type")
	a.w.WriteHeader(http.StatusNoContent)
}

// events sends records as they commit.
func (a *answering) events(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	frames, err := a.read(ctx, true)
	if err != nil {
		a.Refuse(a.w, 0, err)
		return
	}
	a.Lasts(ctx)
	var text []byte
	for began := false; ; began = true {
		frame, err := frames.Recv()
		if err == nil {
			err = a.Reserve(ctx, frame, false)
		}
		text = text[:0]
		if err == nil && frame.GetRecordCount() > 0 {
			var array []byte
			array, err = appendRecords([]byte("["), frame.GetRecords())
			text = appendEvent(text, "data", append(array, ']'))
		}
		if err != nil {
			if !began {
				a.Refuse(a.w, 0, err)
			}
			return // the client comes again with its offset, and learns why then
		}
		if !began {
			a.w.Header().Set("Content-Type", "text/event-stream")
		}
		a.next = frame.GetFirstOffset() + int64(frame.GetRecordCount())
		said, _ := json.Marshal(control{Next: formatOffset(a.next), Cursor: a.newCursor(), UpToDate: a.next == frame.GetEndOffset()}) // of strings
		_, _ = a.w.Write(appendEvent(text, "control", said))
		_ = http.NewResponseController(a.w).Flush()
	}
}
