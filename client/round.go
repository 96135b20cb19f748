package client

import "context"

// round is one turn of the supervisor, from opening a stream to its end. It holds
// why the stream has to end.
type round struct {
	*job
	turns        *turns
	interruption interruption
	cancel       context.CancelFunc // ends the stream; nil: no round is under way
	// trouble: nothing has been appended since a round failed.
	trouble bool
}

// interruption is why a stream ended or must end.
type interruption struct {
	err     *Error   // nil: nothing happened
	refused *request // whose answer it was; nil: no answer's
}

// begin begins a round, which ends with its context.
func (r *round) begin() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.context)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
	if r.interruption.err != nil {
		cancel()
	}
	return ctx, cancel
}

// end returns why the round ended. Its receiver has returned.
func (r *round) end() interruption {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interruption
	r.interruption, r.cancel = interruption{}, nil
	return i
}

// interrupt ends the round, or the next one if there is none now. Of several
// reasons the first counts.
func (r *round) interrupt(i interruption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interruptLocked(i)
}

func (r *round) interruptLocked(i interruption) {
	if r.interruption.err == nil {
		r.interruption = i
	}
	if r.cancel != nil {
		r.cancel()
	}
	if r.turns.asleep() {
		r.turns.rouse()
	}
}

// failed reports a failed round that will be repeated to the trouble handler.
func (r *round) failed(err *Error) {
	if r.context.Err() != nil || err == nil || !err.again() {
		return
	}
	r.mu.Lock()
	r.trouble = true
	r.mu.Unlock()
	r.client.options.onTrouble(r.log, err)
}

// progressed reports the end of trouble.
func (r *round) progressed() {
	r.mu.Lock()
	ended := r.trouble
	r.trouble = false
	r.mu.Unlock()
	if ended {
		r.client.options.onTrouble(r.log, nil)
	}
}
