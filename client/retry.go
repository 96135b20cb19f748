package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// tries is what is known about one call over all its attempts, on whatever nodes.
type tries struct {
	outcome  Outcome
	answered *Error // the last failure that a node returned; nil: none
}

// failed adds a failed attempt, and returns its error with the outcome of all attempts.
func (t *tries) failed(newest *Error) *Error {
	failure := *newest
	t.outcome = t.outcome.Then(failure.Outcome)
	failure.Outcome = t.outcome
	if failure.Reason != ErrUnreachable.Reason {
		t.answered = &failure
	}
	return &failure
}

// note adds an attempt that ended with err, which it returns; nil: it succeeded.
func (t *tries) note(err error) error {
	if err != nil {
		t.failed(fromRPC(err))
	}
	return err
}

// existed reports whether what the last attempt found existed before the first.
func (t *tries) existed(found bool) bool { return found && t.outcome == NotDone }

// verdict returns the error of the call when the last attempt has failed. The answer of a node
// says more than that another one cannot be reached.
func (t *tries) verdict(failure *Error) *Error {
	if failure.Reason == ErrUnreachable.Reason && t.answered != nil {
		failure = t.answered
	}
	e := *failure
	e.Outcome = t.outcome
	return &e
}

// landed reports whether a refusal for one of reasons means that an earlier attempt of the call
// has taken effect: the call itself may have caused what the refusal objects to, and if another
// one did, the effect is the same.
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

// A client that has lost its leader queries the nodes every 50 to 100 ms, so that it finds the
// next one that soon. Such a query costs a node almost nothing, but those of a thousand clients
// take a core, which nodes may need to find each other. So a client that has waited for a long
// time finds the next leader up to a tenth of that time later, and at most slowestDelay.
const (
	firstDelay   = 10 * time.Millisecond
	lastDelay    = 100 * time.Millisecond
	slowestDelay = time.Second
)

// pauses are the pauses between attempts. The upper bound of a pause doubles up to lastDelay, and
// later is a tenth of the time since the first one. Each pause is random between half of the
// bound and the bound, so that clients that lost the same node do not return together.
type pauses struct {
	tries int // attempts since the last pause, each at another node
	delay time.Duration
	began time.Time // the first pause
	until time.Time // end of an interrupted pause; zero: none
}

func newPauses() *pauses { return &pauses{delay: firstDelay} }

// next returns the maximum length of the next pause.
func (p *pauses) next() time.Duration { return p.delay }

// between is called between a failed attempt and the next one. It pauses only if width nodes have
// been tried since the last pause; see route.
func (p *pauses) between(ctx context.Context, tried *peer, width int) error {
	if p.tries++; p.tries < width {
		return ctx.Err()
	}
	return p.wait(ctx, tried)
}

// wait pauses, or less if the connection to an unreachable node changes before. If ctx is done
// first it returns an error, and the next call continues the same pause.
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
