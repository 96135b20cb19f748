package client

import (
	"context"
	"sync"
	"time"

	"strandline.dev/internal/record"
)

// Producer appends records to one log: pipelined, in the order in which they were given, each at
// most once. It is safe for concurrent use.
//
// Records gather in a request while earlier ones are in flight; see WithMaxInFlightRequests. When
// a connection breaks or another node becomes the leader, the requests without an answer are sent
// again, in order, with the same sequences, so that the log recognizes those that it already has.
//
// When the log refuses a request permanently, that request fails and so does every record that
// was accepted after it and before the failure: none overtakes it. They fail with
// ErrBehindFailed; their outcome says whether that is certain, as it nearly always is, or whether
// they have been sent and the log could not be queried. Records accepted later continue in the
// session's next epoch.
//
// When the session itself is gone, because the producer was cut off for longer than the lease,
// everything without an answer is resolved with Resolve. If that leaves no doubt about any
// record, later ones continue in a new session. Otherwise the producer ends, and every further
// append fails with the same error: the application must read the log to find out which records
// it has before continuing.
type Producer struct {
	*job
	backlog    *backlog
	session    *producerSession
	sender     *sender
	supervisor *supervisor

	end     context.CancelFunc
	workers sync.WaitGroup
}

// job is shared by the parts of a producer. It has one mutex, since a record that is accepted
// concerns several parts. Except for the mutex it does not change once the producer is open.
type job struct {
	client  *Client
	log     string
	logID   uint64 // of the log
	options producerOptions
	context context.Context // ends when the producer does
	mu      sync.Mutex      // guards the changing fields of all parts
}

// Producer returns a producer for an existing log, with a session of its own unless
// WithoutSession is given. ctx bounds only the opening. After an error nothing is in the log.
func (c *Client) Producer(ctx context.Context, log string, opts ...ProducerOption) (*Producer, error) {
	o := defaultProducerOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if o.withoutSession && o.resume.Session != 0 {
		return nil, &Error{Reason: ErrInvalid.Reason, Message: "a producer without a session cannot resume one"}
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

// newProducer connects the parts. A part refers only to parts that are created before it.
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

// Append appends a value and waits until it is durable. It returns the record's offset. If ctx is
// done first, the record may still be appended, unless the error's outcome is NotDone.
func (p *Producer) Append(ctx context.Context, value []byte) (int64, error) {
	return p.AppendRecord(ctx, Record{Value: value})
}

// AppendRecord is like Append for a record with key, headers or timestamp.
func (p *Producer) AppendRecord(ctx context.Context, r Record) (int64, error) {
	q, index, err := p.accept(ctx, &r, true, nil)
	if err != nil {
		return 0, err
	}
	return q.wait(ctx, index)
}

// Send accepts a record and returns the future of its offset. The record is copied. Send waits
// while the records without an answer fill the buffer, see WithBufferBytes. An error means that
// the record was not accepted.
func (p *Producer) Send(ctx context.Context, r Record) (*Future, error) {
	q, index, err := p.accept(ctx, &r, false, nil)
	if err != nil {
		return nil, err
	}
	return &Future{request: q, index: index}, nil
}

// SendFunc is like Send with a callback. It is called once, in the order of the records, from a
// goroutine on which later answers wait: it must return soon and must not wait for this producer.
func (p *Producer) SendFunc(ctx context.Context, r Record, done func(offset int64, err error)) error {
	_, _, err := p.accept(ctx, &r, false, done)
	return err
}

// AppendBatch appends consecutive records, in one request of at most MaxRecordBytes, and waits
// until they are durable. It returns the offset of the first; the others follow without a gap.
func (p *Producer) AppendBatch(ctx context.Context, records []Record, opts ...AppendOption) (first int64, err error) {
	var o appendOptions
	for _, opt := range opts {
		opt(&o)
	}
	if len(records) == 0 {
		return 0, &Error{Reason: ErrInvalid.Reason, Message: "the batch has no records"}
	}
	if o.hasExpectedEnd && o.expectedEnd < 0 {
		return 0, &Error{Reason: ErrInvalid.Reason, Message: "the expected end of an append is negative"}
	}
	if o.check != nil && o.check.Since < 0 {
		return 0, &Error{Reason: ErrInvalid.Reason, Message: "the offset of a check is negative"}
	}
	q, err := p.acceptBatch(ctx, records, o)
	if err != nil {
		return 0, err
	}
	return q.wait(ctx, 0)
}

// accept adds a record to a request, and returns the request and the index of the record in it. A
// caller that waits may send the request itself. The mutex is held only while the record is
// copied: a microsecond for a record of 2 KiB.
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

// acceptBatch makes one request of all records, behind what was accepted before.
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

// Flush waits until every record accepted before has its answer, without lingering. It returns an
// error only if ctx is done.
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

// Close accepts no more records, waits for the missing answers and closes the session. When ctx
// is done, unanswered records fail, with outcome MaybeDone if they were sent; the session then
// remains until its lease runs out.
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

// Session returns the session's current id and epoch, for Admin.Resolve. The id is 0 if there is
// no session.
func (p *Producer) Session() (id uint64, epoch uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.current.ID, p.session.current.Epoch
}
