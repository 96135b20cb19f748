package client

import (
	"context"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// request is one batch of records: it gathers records, is closed, sent, perhaps sent again, and
// settled once.
//
//	forming -> queued -> in flight -> settled
//	                        ^  |
//	                        +--+ the stream broke: sent again on the next
//
// The Producer's mutex guards all fields except the result.
type request struct {
	backlog    *backlog
	builder    record.Builder // until the batch is finished
	timestamp  int64          // of records without one, Unix milliseconds
	accepted   time.Time      // when the first record was accepted
	count      int            // records
	size       int            // bytes of the batch before compression
	waiters    int            // callers that wait in Append for this request
	callbacks  []callback
	conditions appendOptions
	urgent     bool // does not linger

	batch record.Batch // written by the sending goroutine before it is sent first
	state requestState
	// Position of the first record in its session, once in flight; session 0: none.
	session uint64
	epoch   uint32
	first   uint64

	sends int
	sent  time.Time // first
	// outcome is what is known about all sends that have ended. The send on the stream that is open
	// now is not included.
	outcome Outcome

	// The result is written before done is closed, and not changed after.
	done   chan struct{}
	offset int64 // of the first record
	err    *Error
	// answered is when the answer arrived, and stages how the time before was spent.
	answered time.Time
	stages   *strandlinev1.AppendStages
}

// requestState is the progress of a request.
type requestState uint8

const (
	// accepted means that it is in the open batch or in the queue, and has no place in its session.
	accepted requestState = iota
	// inFlight means that it is in the window.
	inFlight
	// failed means that it was settled with an earlier one, while its own answer, a refusal, is
	// still to come.
	failed
)

// callback is the function given to SendFunc for the record at an index.
type callback struct {
	index int
	call  func(offset int64, err error)
}

func (r *request) add(from *Record) error {
	to := record.Record{Timestamp: r.timestamp, Key: from.Key, Value: from.Value, Headers: from.Headers}
	if !from.Timestamp.IsZero() {
		to.Timestamp = from.Timestamp.UnixMilli()
	}
	if err := r.builder.Add(to); err != nil {
		return err
	}
	r.count++
	return nil
}

// settle gives every record of the request its result, in order. The caller holds no lock.
func (r *request) settle(offset int64, err *Error) {
	r.offset, r.err = offset, err
	close(r.done)
	for _, c := range r.callbacks {
		c.call(r.result(c.index))
	}
}

// result returns the result of the record at an index, once done is closed.
func (r *request) result(index int) (int64, error) {
	if r.err != nil && r.err.Outcome == MaybeDone {
		return 0, r.inDoubt(index, r.err)
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.offset + int64(index), nil
}

// wait waits for the result of the record at an index.
func (r *request) wait(ctx context.Context, index int) (int64, error) {
	if ctx.Done() == nil {
		<-r.done
		return r.result(index)
	}
	select {
	case <-r.done:
		return r.result(index)
	case <-ctx.Done():
		return 0, r.inDoubt(index, cancelled(ctx, MaybeDone))
	}
}

// inDoubt adds to the error of a record what Admin.Resolve needs.
func (r *request) inDoubt(index int, err *Error) *Error {
	at, e := r.backlog.place(r, index), *err
	e.LogID, e.SessionID, e.Epoch, e.Sequence = at.LogID, at.Session, at.Epoch, at.Next
	return &e
}

// Future is the future result of one record.
type Future struct {
	request *request
	index   int
}

// Done returns a channel that is closed when the result is available.
func (f *Future) Done() <-chan struct{} { return f.request.done }

// Offset waits until the record is durable and returns its offset. If ctx is done first, the
// record may still be appended: the outcome is MaybeDone, and Offset may be called again.
func (f *Future) Offset(ctx context.Context) (int64, error) { return f.request.wait(ctx, f.index) }
