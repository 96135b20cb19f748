package client

import (
	"context"
	"sync"
	"time"

	"strandline.dev/internal/record"
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
// asked. Records accepted later continue in the session's next epoch.
//
// When the session itself is gone, because the producer was cut off for longer
// than the lease, everything without an answer is settled by Resolve. If that
// leaves no doubt about any record, later ones continue in a new session; else the
// producer ends, and every further append fails with the same error: its user
// must find out by reading what is in the log before continuing.
type Producer struct {
	*job
	backlog    *backlog
	session    *producerSession
	sender     *sender
	supervisor *supervisor

	end     context.CancelFunc
	workers sync.WaitGroup
}

// job is what the parts of a producer share: what to do, and one mutex, for a
// record that is accepted concerns several of them. But for the mutex it does not change once the
// producer is open.
type job struct {
	client  *Client
	log     string
	logID   uint64 // of the log
	options producerOptions
	context context.Context // ends when the producer does
	mu      sync.Mutex      // guards what changes in any part
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
	if o.requests < 0 || o.bytes < 0 || o.requestBytes <= 0 || o.bufferBytes <= 0 || o.linger < 0 || o.timeout < 0 || o.lease <= 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a limit of the producer is not positive"}
	}
	o.requestBytes = min(o.requestBytes, o.bufferBytes, record.MaxBatchBytes)
	if o.bytes > 0 {
		o.requestBytes = min(o.requestBytes, o.bytes)
	}

	p := newProducer(c, log, o)
	if err := p.session.open(ctx); err != nil {
		p.end()
		return nil, err
	}
	p.workers.Go(p.supervisor.run)
	w := &watch{p.job, p.backlog, p.session, p.supervisor.round}
	p.workers.Go(w.rounds)
	if !o.withoutSession {
		p.workers.Go(w.lease)
	}
	return p, nil
}

// newProducer connects the parts. Of two parts the one that is made later knows the
// one before, and not the other way round.
func newProducer(c *Client, log string, o producerOptions) *Producer {
	j := &job{client: c, log: log, options: o}
	p := &Producer{job: j}
	j.context, p.end = context.WithCancel(o.traced(context.Background()))
	p.session = &producerSession{job: j, lastSign: time.Now()}
	p.backlog = newBacklog(j, p.session)
	t := &turns{job: j, wake: make(chan struct{}, 1)}
	r := &round{job: j, turns: t}
	p.sender = &sender{job: j, backlog: p.backlog, turns: t, round: r}
	in := &receiver{job: j, backlog: p.backlog, sender: p.sender, round: r}
	p.supervisor = &supervisor{job: j, backlog: p.backlog, sender: p.sender, receiver: in, round: r}
	return p
}

// Append appends a value and waits until it is durable. It returns the record's
// offset. If ctx ends first, the record is still on its way, unless the
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
	if o.hasExpectedEnd && o.expectedEnd < 0 {
		return 0, &Error{Reason: ErrInvalid.Reason, Message: "append with an expected end that is negative"}
	}
	q, err := p.acceptBatch(ctx, records, o)
	if err != nil {
		return 0, err
	}
	return q.wait(ctx, 0)
}

// accept puts a record into a request, and returns that one and the record's place in
// it. A caller that waits may send the request itself. The mutex is held for the
// copying only: a microsecond for a record of 2 KiB.
func (p *Producer) accept(ctx context.Context, r *Record, waits bool, call func(int64, error)) (*request, int, error) {
	p.mu.Lock()
	q, index, err := p.backlog.add(ctx, r, waits, call)
	if err != nil {
		p.mu.Unlock()
		return nil, 0, err
	}
	if waits {
		if stream := p.sender.goDirect(q); stream != nil {
			p.mu.Unlock()
			p.sender.sendDirect(q, stream)
			return q, index, nil
		}
	}
	p.sender.nudge()
	p.mu.Unlock()
	return q, index, nil
}

// acceptBatch makes a request out of all records, behind what was accepted
// before.
func (p *Producer) acceptBatch(ctx context.Context, records []Record, o appendOptions) (*request, error) {
	q := p.backlog.newRequest()
	for i := range records {
		if err := q.add(&records[i]); err != nil {
			return nil, fromRecord(err)
		}
	}
	q.size, q.waiters, q.conditions = q.builder.Size(), 1, o
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.backlog.addRequest(ctx, q); err != nil {
		return nil, err
	}
	p.sender.nudge()
	return q, nil
}

// Flush waits until every record accepted before has its answer, good or bad,
// without lingering. The error is about ctx only.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	last := p.backlog.newest()
	if last != nil && last == p.backlog.forming {
		last.urgent = true
		p.sender.nudge()
	}
	p.mu.Unlock()
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

// Close accepts nothing more, waits for the answers that are missing and closes
// the session. When ctx ends, what is unanswered fails, with outcome MaybeDone
// if it was sent; the session then stays until its lease runs out.
func (p *Producer) Close(ctx context.Context) error {
	p.backlog.stop(closed("producer"))
	err := p.Flush(ctx)
	p.end()
	p.workers.Wait()
	session := p.session.forget()
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
	return p.session.current.ID, p.session.current.Epoch
}
