package client

import (
	"context"
	"time"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// request is one batch of records on its way: it takes records, is sealed,
// sent, perhaps sent again, and settled once.
//
//	forming -> queued -> in flight -> settled
//	                        ^  |
//	                        +--+ the stream broke: sent again on the next
//
// The Producer's mutex guards all fields, but for the result.
type request struct {
	backlog    *backlog
	builder    record.Builder // until the batch is finished
	timestamp  int64          // of records that bring none, unix ms
	accepted   time.Time      // when the first record came
	count      int            // records
	size       int            // bytes of the batch before compression
	waiters    int            // callers that wait in Append for this request
	callbacks  []callback
	conditions appendOptions
	urgent     bool // does not linger

	batch record.Batch // written by the sending goroutine before it is sent first
	state requestState
	// Position of the first record in its session, once in flight; session 0: in
	// none.
	session uint64
	epoch   uint32
	first   uint64

	sends int
	sent  time.Time // first
	// outcome is what is known of all sendings that have ended. The one on the
	// stream that is open now is not among them.
	outcome Outcome

	// The result is written before done is closed, and not changed after.
	done   chan struct{}
	offset int64 // of the first record
	err    *Error
	// answered is when the answer came, and stages what it says of the time before.
	answered time.Time
	stages   *strandlinev1.AppendStages
}

// requestState is how far a request has come.
type requestState uint8

const (
	// accepted: it forms or is queued, and has no place in its session.
	accepted requestState = iota
	// inFlight: it is in the window.
	inFlight
	// failed: it was settled with one in front of it, while its own answer, a
	// refusal, is still to come.
	failed
)

// callback is what SendFunc was given for the record of an index.
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

// settle gives every record of the request its result, in order. The caller
// holds no lock.
func (r *request) settle(offset int64, err *Error) {
	r.offset, r.err = offset, err
	close(r.done)
	for _, c := range r.callbacks {
		c.call(r.result(c.index))
	}
}

// result is that of the record of an index, once done is closed.
func (r *request) result(index int) (int64, error) {
	if r.err != nil && r.err.Outcome == MaybeDone {
		return 0, r.inDoubt(index, r.err)
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.offset + int64(index), nil
}

// wait is for the result of the record of an index.
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

// inDoubt adds to an error of a record what Admin.Resolve needs to settle it.
func (r *request) inDoubt(index int, err *Error) *Error {
	at, e := r.backlog.place(r, index), *err
	e.LogID, e.SessionID, e.Epoch, e.Sequence = at.LogID, at.Session, at.Epoch, at.Next
	return &e
}

// Future is the result of one record, once there is one.
type Future struct {
	request *request
	index   int
}

// Done is closed when the result is there.
func (f *Future) Done() <-chan struct{} { return f.request.done }

// Offset waits for the record to be durable and returns where it is. If ctx
// ends first the record stays on its way: the outcome is MaybeDone, and Offset
// may be called again.
func (f *Future) Offset(ctx context.Context) (int64, error) { return f.request.wait(ctx, f.index) }
