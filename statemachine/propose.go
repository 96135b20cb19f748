package statemachine

import (
	"context"
	"errors"

	"strandline.dev/client"
)

// maxResults bounds the results that are kept for proposals that wait for their answers.
const maxResults = 65_536

// Applied is the outcome of a proposal.
type Applied[R any] struct {
	Offset int64 // of the record
	Result R     // of Apply
}

// Propose appends a record, at most once, waits until it is applied here, and returns what Apply has
// returned for it. The proposals of several callers share requests; their order is not that of the
// calls. With options, such as client.WithCheck and client.WithExpectedEnd, the record is appended on a
// condition. When Propose returns without an error, every query of this replica sees the record, and one of
// another replica with AtLeast(Offset+1).
//
// The error is a *client.Error if the log refused the record, or may have it; then its Outcome says
// whether it has. Where the answer was lost, Propose asks the log as long as ctx lasts, so that an Outcome
// of MaybeDone is rare. It is an *Error if the record is in the log, and its result is not known.
func (r *Replica[R]) Propose(ctx context.Context, record client.Record, opts ...client.AppendOption) (Applied[R], error) {
	if _, ours := kindOf(&record); ours {
		return Applied[R]{}, &client.Error{Reason: client.ErrInvalid.Reason, Message: "a proposal with the header " + Header}
	}
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return Applied[R]{}, r.stopped()
	}
	proposal := r.results.Begin(r.next)
	r.counts.proposals++
	r.counts.pending++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.results.End(proposal)
		r.counts.pending--
	}()
	offset, err := r.append(ctx, record, opts)
	if err != nil {
		return Applied[R]{}, err
	}
	if err := r.reach(ctx, offset+1); err != nil {
		var failed *Error
		if errors.As(err, &failed) {
			failed.Outcome, failed.Offset = client.Done, offset
		}
		return Applied[R]{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result, kept := r.results.Take(offset)
	if !kept {
		return Applied[R]{}, &Error{Outcome: client.Done, Offset: offset, log: r.log, reason: ErrResultLost}
	}
	return Applied[R]{offset, result}, nil
}

// append appends a record and returns its offset. An append that only fails because another one did is
// made again, and one whose answer was lost is resolved.
func (r *Replica[R]) append(ctx context.Context, record client.Record, opts []client.AppendOption) (int64, error) {
	for {
		p, err := r.open(ctx)
		if err != nil {
			return 0, err
		}
		var offset int64
		if len(opts) == 0 {
			offset, err = p.AppendRecord(ctx, record)
		} else {
			offset, err = p.AppendBatch(ctx, []client.Record{record}, opts...)
		}
		var failure *client.Error
		if !errors.As(err, &failure) {
			return offset, err
		}
		lost := isOneOf(failure, client.ErrSessionExpired, client.ErrSessionNotFound, client.ErrOutcomeUnknown, client.ErrClosed)
		if lost {
			r.leave(p)
		}
		switch {
		case ctx.Err() != nil, r.life.Err() != nil:
			return 0, failure
		case failure.Outcome == client.MaybeDone && failure.SessionID != 0:
			return r.resolve(ctx, failure)
		case failure.Outcome == client.NotDone && (lost || failure.Is(client.ErrBehindFailed)):
			// Only the append before it, or the session, has failed.
		default:
			return 0, failure
		}
	}
}

func isOneOf(e *client.Error, reasons ...*client.Error) bool {
	for _, reason := range reasons {
		if e.Is(reason) {
			return true
		}
	}
	return false
}

// resolve asks the log for the outcome of an append. A record that is not in the log then never will be.
func (r *Replica[R]) resolve(ctx context.Context, failure *client.Error) (int64, error) {
	found, err := r.client.Admin().Resolve(ctx, r.log, failure.Position(), true)
	switch {
	case err != nil:
		return 0, failure
	case found.State == client.Committed:
		return found.Offset, nil
	case found.State == client.Never:
		never := *failure
		never.Outcome = client.NotDone
		return 0, &never
	}
	return 0, failure
}

// open returns the producer of the proposals, which is opened for the first one.
func (r *Replica[R]) open(ctx context.Context) (*client.Producer, error) {
	if p := r.opened(); p != nil {
		return p, nil
	}
	select {
	case r.opening <- struct{}{}:
		defer func() { <-r.opening }()
	case <-r.done:
	case <-ctx.Done():
		return nil, &Error{log: r.log, reason: ctx.Err(), cause: errors.New("waiting for another call to open the session")}
	}
	if err := r.ended(); err != nil {
		return nil, err
	}
	if p := r.opened(); p != nil {
		return p, nil
	}
	p, err := r.client.Producer(ctx, r.log, r.options.producer...)
	if err != nil {
		return nil, err
	}
	if id := p.Position().LogID; id != r.logID {
		r.closeLater(p)
		return nil, &client.Error{Reason: client.ErrLogReplaced.Reason, LogID: id, Message: "another log has been given the name " + r.log}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.closeLater(p)
		return nil, r.stopped()
	}
	r.producer = p
	return p, nil
}

// ended returns the error of a call if the replica has ended.
func (r *Replica[R]) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.stopped()
	}
	return nil
}

func (r *Replica[R]) opened() *client.Producer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.producer
}

// leave gives up a producer that has ended; the next proposal opens another one.
func (r *Replica[R]) leave(p *client.Producer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.producer == p {
		r.producer = nil
		r.closeLater(p)
	}
}

// closeLater ends a producer without waiting for answers: its session ends with its lease.
func (r *Replica[R]) closeLater(p *client.Producer) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _ = p.Close(ctx) }()
}
