package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// turn is who may put requests on the stream.
//
//	working <-> sleeping
//	   ^  \
//	   |   +-> resting <-> lent
//	   |                    |  the round ends
//	   +--------------- recalled
type turn uint8

const (
	// working: the sending goroutine, which is awake.
	working turn = iota
	// sleeping: it too, and it waits for wake.
	sleeping
	// resting: it waits for wake, with a stream on which a caller may send.
	resting
	// lent: a caller is sending.
	lent
	// recalled: a caller is sending, and the sending goroutine waits for it to be done.
	recalled
)

// turns is whose turn it is. The mutex is held in its methods.
type turns struct {
	*job
	now    turn
	stream grpc.ClientStream // while the sending goroutine rests
	wake   chan struct{}     // of capacity 1: the sending goroutine has something to look at
}

// sleep waits for a nudge, the end of ctx, or the timer. The mutex is released
// meanwhile.
func (t *turns) sleep(ctx context.Context, timer <-chan time.Time) {
	t.now = sleeping
	t.awaitWake(ctx, timer)
	t.now = working
}

func (t *turns) awaitWake(ctx context.Context, timer <-chan time.Time) {
	t.mu.Unlock()
	select {
	case <-t.wake:
	case <-ctx.Done():
	case <-timer:
	}
	t.mu.Lock()
}

// asleep reports whether the sending goroutine waits and could be woken.
func (t *turns) asleep() bool { return t.now == sleeping || t.now == resting }

// rouse wakes the sending goroutine.
func (t *turns) rouse() {
	t.now = working
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// rest waits for something to send. Meanwhile a caller may take the turn; it has given
// it back when rest returns. The mutex is released meanwhile.
func (t *turns) rest(round context.Context, stream grpc.ClientStream) {
	t.now, t.stream = resting, stream
	t.awaitWake(round, nil)
	if t.now == lent {
		t.now = recalled
	}
	for t.now == recalled {
		t.awaitWake(context.Background(), nil)
	}
	t.now, t.stream = working, nil
}
