package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

// A client that has lost its leader asks around every 50 to 100 ms, so that it
// finds the next one that soon. Being asked costs a node next to nothing.
const (
	firstDelay = 10 * time.Millisecond
	lastDelay  = 100 * time.Millisecond
)

// pauses lie between tries. The longest that one can be doubles up to lastDelay,
// and each is between half and all of that, so that clients which lost the same
// node do not come back together.
type pauses struct {
	tries int // made since the last pause, each at another node
	delay time.Duration
	until time.Time // end of a pause that was cut short; zero: none was
}

func newPauses() pauses { return pauses{delay: firstDelay} }

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
// changes before. When ctx ends first it fails, and the next call goes on with
// the same pause.
func (p *pauses) wait(ctx context.Context, tried *peer) error {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.delay/2 + rand.N(p.delay/2))
		p.delay = min(2*p.delay, lastDelay)
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
