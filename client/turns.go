package client

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// turn tells which goroutine may put requests on the stream.
//
//	working <-> sleeping
//	   ^  \
//	   |   +-> resting <-> lent
//	   |                    |  the round ends
//	   +--------------- recalled
type turn uint8

const (
	// working: the sending goroutine has the turn and is awake.
	working turn = iota
	// sleeping: the sending goroutine has the turn and waits for wake.
	sleeping
	// resting: the sending goroutine waits for wake, and a caller may take the turn and send on
	// the stream.
	resting
	// lent: a caller is sending.
	lent
	// recalled: a caller is sending, and the sending goroutine waits for it to be done.
	recalled
)

// turns holds the current turn. The mutex is held when its methods are called.
type turns struct {
	*job
	now    turn
	stream grpc.ClientStream // set while the sending goroutine rests
	wake   chan struct{}     // of capacity 1; wakes the sending goroutine
}

// sleep waits for wake, the end of ctx, or the timer. It releases the mutex while it waits.
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

// asleep reports whether the sending goroutine waits for wake.
func (t *turns) asleep() bool { return t.now == sleeping || t.now == resting }

// rouse wakes the sending goroutine.
func (t *turns) rouse() {
	t.now = working
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// rest waits for wake or the end of the round. Meanwhile a caller may take the turn; if one has
// it then, rest waits until the caller has returned it. It releases the mutex while it waits.
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

// returning counts the callers that answers have woken and that have not appended their next
// records yet. The mutex is held when its methods are called.
type returning struct {
	// formed is a copy of forming.count that can be read without the mutex.
	formed   atomic.Int64
	woken    int // callers that answers have woken since the last batch was closed
	early    int // records in the forming request when the first of them was woken
	patience int // limit of gather, in yields
}

// Bounds of the number of consecutive yields of gather without a new record.
const (
	patienceMin = 4
	patienceMax = 256
)

// woke counts callers that an answer has woken.
func (c *returning) woke(callers int) {
	if c.woken == 0 {
		c.early = int(c.formed.Load())
	}
	c.woken += callers
}

// expected returns the number of records in the forming request once every woken caller has
// appended: the records that were there before, and one for each caller. If only the woken
// callers were counted, callers that had split into two halves would alternate for ever, each
// request with one half.
func (c *returning) expected() int { return c.early + c.woken }

// gather lets the callers that the last answers woke append their next records before a request
// is sent. Without it, the record of the first of 128 callers would be sent alone, and requests
// would alternate between 1 record and 127. Its patience grows if most callers returned the last
// time: a yield costs 0.1 us when no other goroutine runs. It releases the mutex while it waits.
func (c *returning) gather(mu *sync.Mutex) {
	expected, patience := int64(c.expected()), c.patience
	c.woken, c.early = 0, 0
	mu.Unlock()
	seen := c.formed.Load()
	for idle := 0; idle < patience && seen < expected; idle++ {
		runtime.Gosched()
		if now := c.formed.Load(); now != seen {
			seen, idle = now, 0
		}
	}
	mu.Lock()
	if seen > expected/2 {
		c.patience = min(2*patience, patienceMax)
	} else {
		c.patience = max(patience/2, patienceMin)
	}
}
