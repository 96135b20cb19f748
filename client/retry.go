package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// tries is what is known of one call over all tries of it, on whatever nodes.
type tries struct {
	outcome  Outcome
	answered *Error // the newest failure that a node answered with; nil: none has
}

// failed adds a try that ended with a failure, and returns it with the outcome of
// all tries.
func (t *tries) failed(newest *Error) *Error {
	failure := *newest
	t.outcome = t.outcome.Then(failure.Outcome)
	failure.Outcome = t.outcome
	if failure.Reason != ErrUnreachable.Reason {
		t.answered = &failure
	}
	return &failure
}

// note adds a try that ended with err, which it returns; nil: it succeeded.
func (t *tries) note(err error) error {
	if err != nil {
		t.failed(fromRPC(err))
	}
	return err
}

// existed reports whether what the last try found was there before the first.
func (t *tries) existed(found bool) bool { return found && t.outcome == NotDone }

// verdict is the error of the call when the newest try, which failed, was the
// last. What a node has answered says more than that another one cannot be
// reached.
func (t *tries) verdict(failure *Error) *Error {
	if failure.Reason == ErrUnreachable.Reason && t.answered != nil {
		failure = t.answered
	}
	e := *failure
	e.Outcome = t.outcome
	return &e
}

// landed reports whether a refusal for reason means that an earlier try of the
// call has had its effect: the call itself may have done what the refusal
// objects to, and if another one did, the effect is the same.
func landed(err error, reasons ...*Error) bool {
	e, ok := err.(*Error)
	if !ok || e.Outcome == NotDone {
		return false
	}
	for _, r := range reasons {
		if e.Is(r) {
			return true
		}
	}
	return false
}

// A client that has lost its leader queries the nodes every 50 to 100 ms, so that it
// finds the next one that soon. Such a query costs a node next to nothing; those of a
// thousand clients take a core, which nodes may need to find each other. So who has waited for
// long finds the next leader later by a tenth of that, and by slowestDelay at most.
const (
	firstDelay   = 10 * time.Millisecond
	lastDelay    = 100 * time.Millisecond
	slowestDelay = time.Second
)

// pauses lie between tries. The upper bound of a pause doubles up to lastDelay, and later a
// tenth of the time since the first; each pause is random between half of that and all of
// it, so that clients which lost the same node do not return together.
type pauses struct {
	tries int // made since the last pause, each at another node
	delay time.Duration
	began time.Time // the first pause
	until time.Time // end of a pause that was cut short; zero: none was
}

func newPauses() *pauses { return &pauses{delay: firstDelay} }

// next is the longest that the next pause can be.
func (p *pauses) next() time.Duration { return p.delay }

// between lies between a try that failed and the next one. It pauses only when
// width nodes have been tried since the last pause; see route.
func (p *pauses) between(ctx context.Context, tried *peer, width int) error {
	if p.tries++; p.tries < width {
		return ctx.Err()
	}
	return p.wait(ctx, tried)
}

// wait pauses, or less if the connection to a node that could not be reached
// changes before. When ctx ends first it fails, and the next call continues the
// same pause.
func (p *pauses) wait(ctx context.Context, tried *peer) error {
	if p.until.IsZero() {
		now := time.Now()
		if p.began.IsZero() {
			p.began = now
		}
		p.until = now.Add(p.delay/2 + rand.N(p.delay/2))
		p.delay = min(2*p.delay, max(lastDelay, now.Sub(p.began)/10), slowestDelay)
	}
	timed, cancel := context.WithDeadline(ctx, p.until)
	defer cancel()
	if tried != nil && tried.conn.GetState() == connectivity.TransientFailure {
		tried.conn.WaitForStateChange(timed, connectivity.TransientFailure)
	} else {
		<-timed.Done()
	}
	if ctx.Err() == nil {
		p.until, p.tries = time.Time{}, 0
	}
	return ctx.Err()
}
