package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/connectivity"
)

const (
	firstDelay = 10 * time.Millisecond
	lastDelay  = time.Second
)

// pauses lie between tries. The longest that one can be doubles up to a second,
// and each is between half and all of that, so that clients which lost the same
// node do not come back together.
type pauses struct {
	count int // pauses begun
	delay time.Duration
	until time.Time // end of a pause that was cut short; zero: none was
}

func newPauses() pauses { return pauses{delay: firstDelay} }

// next is the longest that the next pause can be.
func (p *pauses) next() time.Duration { return p.delay }

// wait pauses, or less if the connection to a node that could not be reached
// changes before. When ctx ends first it fails, and the next call goes on with
// the same pause.
func (p *pauses) wait(ctx context.Context, tried *peer) error {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.delay/2 + rand.N(p.delay/2))
		p.delay = min(2*p.delay, lastDelay)
		p.count++
	}
	timed, cancel := context.WithDeadline(ctx, p.until)
	defer cancel()
	if tried != nil && tried.conn.GetState() == connectivity.TransientFailure {
		tried.conn.WaitForStateChange(timed, connectivity.TransientFailure)
	} else {
		<-timed.Done()
	}
	if ctx.Err() == nil {
		p.until = time.Time{}
	}
	return ctx.Err()
}
