package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// Producer appends records to one log: pipelined, in the order they were
// given, each at most once. It is safe for concurrent use.
//
// Records gather in a request while earlier ones are in flight; see
// WithMaxInFlightRequests. When a connection breaks or another node becomes the
// leader, the requests without an answer are sent again, in order, with the
// same sequences, so that the log recognises what it has already.
//
// When the log refuses a request for good, that request fails and so does every
// record that was accepted after it and before the failure: none slips ahead of
// it. They fail with ErrBehindFailed; their outcome says whether that is certain,
// as it nearly always is, or whether they have been sent and the log could not be
// asked. Records accepted later go on in the session's next epoch.
//
// When the session itself is gone, because the producer was cut off for longer
// than the lease, everything without an answer is settled by Resolve. If that
// leaves no doubt about any record, later ones go on in a new session; else the
// producer ends, and every further append fails with the same error: its user
// must find out by reading what is in the log before going on.
type Producer struct {
	client  *Client
	log     string
	options producerOptions

	// formed mirrors forming.count, for gather to watch without the mutex.
	formed atomic.Int64
	// Memory for batches: what answered requests leave, and how much one needs
	// if there is none.
	spare      sync.Pool // of *[]byte
	sealedSize atomic.Int64
	wake       chan struct{} // of capacity 1: the sending goroutine has something to look at

	context context.Context // ends when the producer does
	end     context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	forming  *request   // takes records; nil: none has come
	queue    []*request // full, not sent yet; oldest first
	window   window
	buffered int                // bytes of all requests above
	room     chan struct{}      // closed when buffered falls; nil: nobody waits for it
	ended    *Error             // why nothing is accepted any more
	turn     turn               // who may send
	stream   grpc.ClientStream  // while the sending goroutine rests
	message  wire.AppendRequest // belongs to whose turn it is
	patience int                // of gather
	woken    int                // callers that answers have woken since the last sealing
	early    int                // records that were formed before the first of them was woken

	logID    uint64  // of the log, once known; written by open only
	session  Session // ID 0: to be opened
	next     uint64  // sequence of the next record to be sealed, in session.Epoch
	lastSign time.Time

	troubled     bool               // nothing has been appended since a round failed
	interruption interruption       // why the stream has to end, if it has to
	cancelRound  context.CancelFunc // ends the stream; see supervise
	counts       counts
}

// Producer begins to append to a log that exists, with a session of its own
// unless WithoutSession is given. ctx bounds the opening only, and of an error of
// it nothing is in the log.
func (c *Client) Producer(ctx context.Context, log string, opts ...ProducerOption) (*Producer, error) {
	o := defaultProducerOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if o.withoutSession && o.resume.Session != 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a producer without a session resumes none"}
	}
	if o.requests < 0 || o.bytes <= 0 || o.requestBytes <= 0 || o.bufferBytes <= 0 || o.linger < 0 || o.timeout < 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a limit of the producer is not positive"}
	}
	o.requestBytes = min(o.requestBytes, o.bytes, o.bufferBytes, record.MaxBatchBytes)

	p := &Producer{
		client: c, log: log, options: o,
		wake:   make(chan struct{}, 1),
		window: newWindow(o.requests, o.bytes), lastSign: time.Now(),
	}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	p.context, p.end = context.WithCancel(context.Background())
	p.workers.Go(p.supervise)
	p.workers.Go(p.watch)
	if !p.options.withoutSession {
		p.workers.Go(p.renew)
	}
	return p, nil
}

// open finds the log and begins its session. Of an error the outcome is always
// NotDone: a session that was opened without an answer ends with its lease.
func (p *Producer) open(ctx context.Context) error {
	opener := p.client.opener(p.log)
	var err error
	switch resume := p.options.resume; {
	case p.options.withoutSession:
		var info LogInfo
		if info, err = opener.Info(ctx, p.log); err == nil {
			p.logID = info.ID
			p.client.peers.prefer(p.log, info.Leader)
		}
	case resume.Session != 0:
		p.logID, p.next = resume.LogID, resume.Next
		p.session = Session{ID: resume.Session, Epoch: resume.Epoch, Lease: p.options.lease, LogID: resume.LogID}
		err = opener.KeepSession(ctx, p.log, p.session)
	default:
		p.session, err = opener.openSession(ctx, p.log, resume.LogID, p.options.lease)
		p.logID = p.session.LogID
	}
	var failure *Error
	if errors.As(err, &failure) {
		failure.Outcome = NotDone
	}
	return err
}

// Append appends a value and waits until it is durable. It returns the record's
// offset. If ctx ends first, the record is on its way all the same, unless the
// error's outcome is NotDone.
func (p *Producer) Append(ctx context.Context, value []byte) (int64, error) {
	return p.AppendRecord(ctx, Record{Value: value})
}

// AppendRecord is Append for a record with key, headers or time.
func (p *Producer) AppendRecord(ctx context.Context, r Record) (int64, error) {
	q, index, err := p.accept(ctx, &r, true, nil)
	if err != nil {
		return 0, err
	}
	return q.wait(ctx, index)
}

// Send accepts a record and returns the future of its offset. The record has
// been copied. Send waits while as much as WithBufferBytes allows is without answers; an error means
// that the record was not accepted.
func (p *Producer) Send(ctx context.Context, r Record) (*Future, error) {
	q, index, err := p.accept(ctx, &r, false, nil)
	if err != nil {
		return nil, err
	}
	return &Future{request: q, index: index}, nil
}

// SendFunc is Send with a callback. It is called once, in the order of the
// records, from a goroutine that the next answers wait for: it must return soon
// and must not wait for this producer.
func (p *Producer) SendFunc(ctx context.Context, r Record, done func(offset int64, err error)) error {
	_, _, err := p.accept(ctx, &r, false, done)
	return err
}

// AppendBatch appends records side by side, in one request of at most
// MaxRecordBytes, and waits until they are durable. It returns the offset of
// the first; the others follow without a gap.
func (p *Producer) AppendBatch(ctx context.Context, records []Record, opts ...AppendOption) (first int64, err error) {
	var o appendOptions
	for _, opt := range opts {
		opt(&o)
	}
	if len(records) == 0 {
		return 0, &Error{Reason: ErrInvalid.Reason, Message: "batch without records"}
	}
	q, err := p.acceptBatch(ctx, records, o)
	if err != nil {
		return 0, err
	}
	return q.wait(ctx, 0)
}

// Flush waits until every record accepted before has its answer, good or bad,
// without lingering. The error is about ctx only.
func (p *Producer) Flush(ctx context.Context) error {
	last := p.last()
	if last == nil {
		return nil
	}
	select {
	case <-last.done:
		return nil
	case <-ctx.Done():
		return cancelled(ctx, MaybeDone)
	}
}

// last is the newest request without an answer, and makes it go out.
func (p *Producer) last() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.forming != nil:
		p.forming.urgent = true
		p.nudge()
		return p.forming
	case len(p.queue) > 0:
		return p.queue[len(p.queue)-1]
	case len(p.window.flight) > 0:
		return p.window.flight[len(p.window.flight)-1]
	}
	return nil
}

// Close accepts nothing more, waits for the answers that are missing and closes
// the session. When ctx ends, what is unanswered fails, with outcome MaybeDone
// if it was sent; the session then stays until its lease runs out.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = closed("producer")
	}
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.end()
	p.workers.Wait()

	p.mu.Lock()
	session := p.session
	p.session = Session{}
	p.mu.Unlock()
	if err == nil && session.ID != 0 {
		err = p.client.Admin().CloseSession(ctx, p.log, session)
	}
	return err
}

// Session is the session's id and epoch now, for Admin.Resolve: id 0 without
// one.
func (p *Producer) Session() (id uint64, epoch uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.ID, p.session.Epoch
}
