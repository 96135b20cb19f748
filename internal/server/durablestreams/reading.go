package durablestreams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
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

// get answers a GET or HEAD.
func (h Handler) get(w http.ResponseWriter, q *http.Request, f *folded) error {
	asked, err := parse(q.URL.Query())
	if err != nil {
		return invalid(err)
	}
	s, found, err := h.state(q.Context(), f, nil)
	if err != nil {
		return err
	}
	a := &answering{Handler: h, w: w, log: f.log, cursor: asked.cursor, next: asked.from.offset}
	kind := jsonType
	switch found {
	case isStream:
		a.id, a.end, a.closed, a.form, kind = s.id, s.end, s.closed, formOf(s.settings.Type), s.settings.Type
	case isGone:
		return noStream(found)
	default:
		info, err := h.Logs.GetInfo(q.Context(), &strandlinev1.GetInfoRequest{Log: f.log})
		if err != nil {
			return err
		}
		a.id, a.start, a.end = info.GetInfo().GetId(), info.GetInfo().GetStartOffset(), info.GetInfo().GetEndOffset()
	}
	switch {
	case asked.from.start:
		a.next = a.start
	case asked.from.tail:
		a.next = a.end
	case a.next < a.start:
		return &record.Refusal{Reason: record.OffsetTrimmed, Start: record.Offset(a.start), Detail: fmt.Sprintf("offset %d is trimmed: the log starts at %d", a.next, a.start)}
	case a.next > a.end:
		return &record.Refusal{Reason: record.OffsetBeyondEnd, End: record.Offset(a.end), Detail: fmt.Sprintf("offset %d is beyond the end of the log at %d", a.next, a.end)}
	}
	if q.Method == http.MethodGet && found == isStream && s.ages(time.Now()) && h.Able(q.Context(), appendMethod, f.log) {
		if _, err := h.append(q.Context(), f.log, s.id, nil, recordsOf(note{At: time.Now().UnixMilli()}, nil, false)); err != nil {
			return err // otherwise the stream might expire although it was read
		}
	}
	w.Header().Set("Content-Type", kind)
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	switch {
	case q.Method == http.MethodHead:
		if s.settings.TTL != nil {
			w.Header().Set("Stream-TTL", strconv.FormatInt(*s.settings.TTL, 10))
		}
		if s.settings.Expires != nil {
			w.Header().Set("Stream-Expires-At", s.settings.Expires.Format(time.RFC3339Nano))
		}
		a.next = a.end
		a.headers(true)
	case asked.mode == events:
		return a.events(ctx)
	default:
		return a.catchUp(ctx, q.Header.Get("If-None-Match"), asked)
	}
	return nil
}

// answering is one answer to a read.
type answering struct {
	Handler
	w          http.ResponseWriter
	log        string
	id         uint64
	start, end int64 // of the log
	closed     bool  // at the end
	form       form
	cursor     int64
	next       int64 // offset
}

// headers sets the headers that describe the end of the answer.
func (a *answering) headers(upToDate bool) {
	h := a.w.Header()
	h.Set("Stream-Next-Offset", formatOffset(a.next))
	if upToDate {
		h.Set("Stream-Up-To-Date", "true")
		if a.closed {
			h.Set("Stream-Closed", "true")
		}
	}
}

func (a *answering) newCursor() string { return nextCursor(time.Now(), a.cursor, mathrand.Int64()) }

// read begins a read at next.
func (a *answering) read(ctx context.Context, follow bool) (strandlinev1.LogService_ReadClient, error) {
	q := &strandlinev1.ReadRequest{Log: a.log, LogId: a.id, From: &strandlinev1.ReadRequest_Offset{Offset: a.next}, Follow: follow}
	if follow {
		q.Heartbeat = durationpb.New(pollTime)
	} else {
		q.UntilOffset, q.MaxBytes = proto.Int64(a.end), maxAnswer
	}
	return a.Logs.Read(ctx, q)
}

// catchUp answers with the existing records, up to maxAnswer. A long poll waits if there are none.
func (a *answering) catchUp(ctx context.Context, known string, asked request) error {
	text, first := a.form.begin(), a.next
	if a.next < a.end {
		frames, err := a.read(ctx, false)
		for more := false; err == nil && len(text) < maxAnswer; more = true {
			var frame *strandlinev1.ReadResponse
			if frame, err = frames.Recv(); err != nil {
				break
			}
			if err = a.Reserve(ctx, frame, more); err != nil {
				if more {
					err = nil // the client gets as much as there was memory for
				}
				break
			}
			if text, err = a.form.add(text, frame.GetRecords()); err == nil {
				a.next = frame.GetFirstOffset() + int64(frame.GetRecordCount())
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if asked.mode == longPoll && a.next == a.end && !a.form.some(text) {
		return a.poll(ctx)
	}
	a.headers(a.next == a.end)
	if asked.mode == longPoll {
		a.w.Header().Set("Stream-Cursor", a.newCursor())
	}
	if !asked.from.tail {
		tag := fmt.Sprintf(`"%d:%d:%d%s"`, a.id, first, a.next, map[bool]string{true: ":closed"}[a.closed && a.next == a.end])
		a.w.Header().Set("ETag", tag)
		if known == tag {
			a.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	_, _ = a.w.Write(a.form.end(text)) // a client that is gone ends the call
	return nil
}

// poll waits for records behind the end.
func (a *answering) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	var frames strandlinev1.LogService_ReadClient
	var err error
	if !a.closed {
		frames, err = a.read(ctx, true)
	}
	for err == nil && !a.closed {
		var frame *strandlinev1.ReadResponse
		if frame, err = frames.Recv(); err != nil || frame.GetRecordCount() == 0 {
			continue
		}
		if err = a.Reserve(ctx, frame, false); err != nil {
			break
		}
		var text []byte
		if text, err = a.form.add(a.form.begin(), frame.GetRecords()); err != nil {
			break
		}
		a.next, a.closed = frame.GetFirstOffset()+int64(frame.GetRecordCount()), a.form != plain && closes(frame.GetRecords())
		if !a.form.some(text) {
			continue
		}
		a.headers(a.next == frame.GetEndOffset())
		a.w.Header().Set("Stream-Cursor", a.newCursor())
		_, _ = a.w.Write(a.form.end(text))
		return nil
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	a.headers(true)
	a.w.Header().Set("Stream-Cursor", a.newCursor())
	a.w.Header().Del("Content-Type")
	a.w.WriteHeader(http.StatusNoContent)
	return nil
}

// events sends records as they commit, until the stream is closed.
func (a *answering) events(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	frames, err := a.read(ctx, true)
	if err != nil {
		return err
	}
	a.Lasts(ctx)
	var text []byte
	for began := false; ; {
		frame, err := frames.Recv()
		if err == nil {
			err = a.Reserve(ctx, frame, false)
		}
		text = text[:0]
		if err == nil && frame.GetRecordCount() > 0 {
			var answer []byte
			if answer, err = a.form.add(a.form.begin(), frame.GetRecords()); err == nil && a.form.some(answer) {
				text = a.form.event(text, a.form.end(answer))
			}
		}
		if err != nil {
			if !began {
				return err
			}
			return nil // the client comes again with its offset, and learns why then
		}
		if frame.GetRecordCount() == 0 && frame.GetFirstOffset() < frame.GetEndOffset() {
			continue // records follow
		}
		if !began {
			began = true
			a.w.Header().Set("Content-Type", "text/event-stream")
			a.w.Header().Set("Cache-Control", "no-store, no-cache")
			if a.form == binary {
				a.w.Header().Set("Stream-SSE-Data-Encoding", "base64")
			}
		}
		a.next = frame.GetFirstOffset() + int64(frame.GetRecordCount())
		says := control{Next: formatOffset(a.next), Cursor: a.newCursor(), UpToDate: a.next == frame.GetEndOffset()}
		if a.form != plain && closes(frame.GetRecords()) {
			a.closed, a.end = true, a.next
		}
		if a.closed && a.next >= a.end {
			says.Closed, says.Cursor = true, ""
		}
		said, _ := json.Marshal(says) // of strings
		_, _ = a.w.Write(appendEvent(text, "control", said))
		_ = http.NewResponseController(a.w).Flush()
		if says.Closed {
			return nil
		}
	}
}
