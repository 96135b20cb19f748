package durablestreams

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// proposal is an append that was decided on the state at end.
type proposal struct {
	log     string
	id      uint64
	end     int64
	first   note
	records []*strandlinev1.Record
}

const (
	// settleTime bounds how long a write is decided again because others append to the log.
	settleTime = 10 * time.Second
	// leastWait and mostWait bound the pause between two decisions, in which the others' appends commit.
	leastWait, mostWait = time.Millisecond, 50 * time.Millisecond
)

// settle appends what decide proposes, and calls decide again if the log has grown since. If decide
// returns nil there is nothing to append. It returns the end of the appended records.
func (h Handler) settle(ctx context.Context, decide func() (*proposal, error)) (*proposal, int64, error) {
	until := time.Now().Add(settleTime)
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		p, err := decide()
		if p == nil || err != nil {
			return nil, 0, err
		}
		end, err := h.append(ctx, p.log, p.id, &p.end, p.records)
		reason := reasonOf(err)
		if err != nil && (reason == 0 || reason.Outcome() == record.MaybeDone) {
			// The records are at p.end, or never will be: a linearizable read includes everything
			// that the log had when its leader was elected, and appends in flight on that leader
			// move the end.
			landed, unknown := h.landed(ctx, p)
			if unknown != nil {
				return nil, 0, err
			}
			if landed {
				return p, p.end + int64(len(p.records)), nil
			}
		} else if reason != record.EndMismatch {
			return p, end, err
		}
		if time.Now().After(until) {
			return nil, 0, record.Refuse(record.Busy, "too many concurrent writes to this stream; try again")
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// landed reports whether the records of a proposal are in the log.
func (h Handler) landed(ctx context.Context, p *proposal) (bool, error) {
	frames, err := h.Logs.Read(ctx, &strandlinev1.ReadRequest{
		Log: p.log, LogId: p.id, From: &strandlinev1.ReadRequest_Offset{Offset: p.end}, MaxRecords: 1,
		Projection: &strandlinev1.Projection{DropKey: true, DropValue: true},
	})
	for err == nil {
		var frame *strandlinev1.ReadResponse
		if frame, err = frames.Recv(); err != nil {
			break
		}
		for _, r := range frame.GetRecords() {
			n, _ := noteOf(r)
			return n.Request == p.first.Request, nil
		}
	}
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return false, err
}

// append appends all records or none. If expected is set, the log must end there.
func (h Handler) append(ctx context.Context, log string, id uint64, expected *int64, records []*strandlinev1.Record) (end int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests, err := h.Logs.Append(ctx)
	if err != nil {
		return 0, err
	}
	err = requests.Send(&strandlinev1.AppendRequest{Log: log, LogId: id, ExpectedEnd: expected, Atomic: true, Records: records})
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	answer, err := requests.Recv()
	if err != nil {
		return 0, err
	}
	if r := answer.GetRefused(); r != nil {
		return 0, &record.Refusal{Reason: reasonNamed(r.GetReason()), Detail: r.GetMessage(), Leader: r.GetMetadata()["leader"]}
	}
	return answer.GetAppended().GetEndOffset(), nil
}

// answer answers a write.
func (h Handler) answer(w http.ResponseWriter, v verdict, end int64, closed bool) error {
	said := w.Header()
	said.Set("Stream-Next-Offset", formatOffset(end))
	if closed {
		said.Set("Stream-Closed", "true")
	}
	if p := v.producer; p != nil {
		said.Set("Producer-Epoch", strconv.FormatInt(p.Epoch, 10))
		if v.expected != nil {
			said.Set("Producer-Expected-Seq", strconv.FormatInt(*v.expected, 10))
			said.Set("Producer-Received-Seq", strconv.FormatInt(p.Seq, 10))
		} else if p.Seq >= 0 {
			said.Set("Producer-Seq", strconv.FormatInt(p.Seq, 10))
		}
	}
	if v.why != nil {
		return &statusError{v.status, v.why}
	}
	w.WriteHeader(v.status)
	return nil
}

// put creates a stream, or compares the existing one. It turns an empty log into the stream: so the next
// PUT completes one that was interrupted between creating the log and its first record.
func (h Handler) put(w http.ResponseWriter, q *http.Request, f *folded) error {
	ctx := q.Context()
	asked, err := parseCreate(q.Header)
	switch {
	case errors.Is(err, errForks):
		return &statusError{http.StatusNotImplemented, record.Refuse(record.Unsupported, "%v", err)}
	case err != nil:
		return invalid(err)
	}
	if err := h.May(ctx, createMethod, f.log); err != nil {
		return err
	}
	body, err := h.Body(maxBody, maxMessages)
	if err != nil {
		return err
	}
	messages, err := messagesOf(typeOf(asked.Type), body)
	if err != nil {
		return invalid(err)
	}
	if err := f.turn.take(ctx); err != nil {
		return err
	}
	defer f.turn.release()
	var there stream
	v := verdict{status: http.StatusCreated}
	_, end, err := h.settle(ctx, func() (*proposal, error) {
		var found found
		if there, found, err = h.create(ctx, f); err != nil {
			return nil, err
		}
		switch found {
		case isStream:
			v = there.matches(asked)
			return nil, nil
		case isEmpty:
			first := note{At: time.Now().UnixMilli(), Request: rand.Text(), Create: &asked.settings}
			return &proposal{f.log, there.id, 0, first, recordsOf(first, messages, asked.closed)}, nil
		}
		return nil, &statusError{http.StatusConflict, record.Refuse(record.LogExists, "a log of this name already exists that was not created as a stream, or was trimmed")}
	})
	switch {
	case err != nil:
		return err
	case v.status == http.StatusCreated:
		there = stream{settings: asked.settings, closed: asked.closed, end: end}
		w.Header().Set("Location", h.URL)
	}
	if v.why == nil {
		w.Header().Set("Content-Type", there.settings.Type)
	}
	return h.answer(w, v, there.end, there.closed)
}

// create folds the log of a stream. It creates the log if it does not exist, and replaces it if the stream
// has expired.
func (h Handler) create(ctx context.Context, f *folded) (stream, found, error) {
	for tries := 0; ; tries++ {
		s, found, err := h.state(ctx, f, nil)
		switch {
		case tries == 3:
			return s, found, err
		case errors.Is(err, errExpired):
			if _, err := h.Catalog.DeleteLog(ctx, &strandlinev1.DeleteLogRequest{Name: f.log, LogId: s.id}); err != nil && !isAny(err, record.LogNotFound, record.LogReplaced) {
				return s, 0, err
			}
		case !isAny(err, record.LogNotFound):
			return s, found, err
		default:
			if _, err := h.Catalog.CreateLog(ctx, &strandlinev1.CreateLogRequest{Name: f.log, RequestId: rand.Text()}); err != nil && !isAny(err, record.LogExists) {
				return s, 0, err
			}
		}
	}
}

// post appends to a stream, or closes it.
func (h Handler) post(w http.ResponseWriter, q *http.Request, f *folded) error {
	ctx := q.Context()
	asked, err := parseWrite(q.Header)
	if err != nil {
		return invalid(err)
	}
	if err := h.May(ctx, appendMethod, f.log); err != nil {
		return err
	}
	if _, found, err := h.state(ctx, f, nil); err != nil || found != isStream {
		return firstError(err, noStream(found))
	}
	body, err := h.Body(maxBody, maxMessages)
	if err != nil {
		return err
	}
	messages, err := messagesOf(asked.kind, body)
	switch {
	case err != nil:
		return invalid(err)
	case len(body) > 0 && len(messages) == 0:
		return record.Refuse(record.Invalid, "an empty array has no messages to append")
	}
	asked.empty = len(messages) == 0
	if err := f.turn.take(ctx); err != nil {
		return err
	}
	defer f.turn.release()
	var v verdict
	var there stream
	_, end, err := h.settle(ctx, func() (*proposal, error) {
		var found found
		var err error
		if there, found, err = h.state(ctx, f, func(s *stream) { v = s.decide(asked) }); err != nil || found != isStream {
			return nil, firstError(err, noStream(found))
		}
		if !v.append {
			return nil, nil
		}
		first := note{At: time.Now().UnixMilli(), Request: rand.Text(), Producer: asked.producer, Seq: asked.seq}
		return &proposal{f.log, there.id, there.end, first, recordsOf(first, messages, asked.closes)}, nil
	})
	switch {
	case err != nil:
		return err
	case v.append:
		there.end, there.closed = end, asked.closes
	}
	return h.answer(w, v, there.end, there.closed)
}

// remove deletes a stream with its log.
func (h Handler) remove(w http.ResponseWriter, q *http.Request, f *folded) error {
	s, found, err := h.state(q.Context(), f, nil)
	if err != nil {
		return err
	}
	if found != isStream && found != isGone {
		return noStream(found)
	}
	if _, err := h.Catalog.DeleteLog(q.Context(), &strandlinev1.DeleteLogRequest{Name: f.log, LogId: s.id}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// firstError returns err, or otherwise if err is nil.
func firstError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// isAny reports whether an error has one of some reasons.
func isAny(err error, reasons ...record.Reason) bool { return slices.Contains(reasons, reasonOf(err)) }
