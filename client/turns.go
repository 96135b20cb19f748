package client

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
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

// returning counts the callers that answers have woken and that have not appended
// their next records yet. The mutex is held in its methods.
type returning struct {
	// formed mirrors forming.count, to be watched without the mutex.
	formed   atomic.Int64
	woken    int // callers that answers have woken since the last sealing
	early    int // records that were formed before the first of them was woken
	patience int // of gather
}

// How many times in a row gather yields without seeing a record come.
const (
	patienceMin = 4
	patienceMax = 256
)

// woke notes that an answer has woken callers.
func (c *returning) woke(callers int) {
	if c.woken == 0 {
		c.early = int(c.formed.Load())
	}
	c.woken += callers
}

// expected is how many records the forming request will have once every caller
// that an answer has woken is back: those come beside the ones that were
// waiting already. Otherwise callers that once fell into two halves would take
// turns for ever, each request with half of them.
func (c *returning) expected() int { return c.early + c.woken }

// gather lets the callers that the last answers woke append their next records
// first. Without it the first of 128 to come would be sent alone, and requests
// would alternate between 1 record and 127. It waits for longer where most of
// them have returned before: a yield costs 0.1 us when nothing else runs. The
// mutex is released meanwhile.
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
