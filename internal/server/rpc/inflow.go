package rpc

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"strandline.dev/internal/budget"
)

// inflow counts what one connection has sent and no handler has received yet. gRPC
// gives the window of a connection back as soon as bytes have come, and each stream
// has a window of its own: on streams whose requests wait for room it would take in
// streamWindow each. So while too much waits on all connections together, one that
// waits with more than its share is not read on, and TCP holds its client up.
//
// After forgetAfter without a stall the handlers have received everything, and the
// count begins anew: nobody reports what gRPC drops with a stream or keeps to itself,
// so that a count which went on for ever would drift.
type inflow struct {
	all *budget.Shares

	mu      sync.Mutex
	appends bool  // requests to append come by it: it has a part in all
	ahead   int64 // received and not handed over; at least 0
	stalled int   // streams whose receiver waits for room
	// sending are answers that gRPC does not take. They may wait for the client's
	// permission to send, which comes by this connection: it has to be read.
	sending int
	closed  bool
	calm    bool        // nothing stalled since forget was armed
	forget  *time.Timer // nil until the first bytes
	armed   bool
	changed chan struct{} // of capacity 1: whether it may be read
}

const (
	forgetAfter = time.Second
	// lookAgain is how often a connection that is held looks at what the others do.
	lookAgain = 50 * time.Millisecond

	// What HTTP/2 and gRPC add to a message.
	frameBytes    = 16 << 10
	frameOverhead = 9
	messageHeader = 5
)

func newInflow(all *budget.Shares) *inflow {
	return &inflow{all: all, changed: make(chan struct{}, 1)}
}

// inflowOf is that of the connection which the call of ctx came by.
func inflowOf(ctx context.Context) *inflow {
	if from, ok := peer.FromContext(ctx); ok {
		if a, ok := from.Addr.(connAddr); ok {
			return a.conn.inflow
		}
	}
	return nil // one of the reserved connections, which have no streams
}

// await returns when the connection may be read. One that is ahead of handlers which
// do not wait for room is not stopped, as they may wait for the rest of a request, but
// slowed down.
func (f *inflow) await() {
	for first := true; f.exceeds(!first); first = false {
		again := time.NewTimer(lookAgain)
		select {
		case <-f.changed:
		case <-again.C:
		}
		again.Stop()
	}
}

// exceeds reports whether the connection has more than its share, and if asked,
// whether that is because a stream has stalled.
func (f *inflow) exceeds(stalled bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed && f.sending == 0 && (f.stalled > 0 || !stalled) && f.ahead > f.all.Share(math.MaxInt64)
}

func (f *inflow) received(bytes int) {
	f.mu.Lock()
	f.add(int64(bytes))
	f.mu.Unlock()
}

// handOver counts a message that a handler has received.
func (f *inflow) handOver(bytes int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.add(-onTheWire(bytes))
	f.mu.Unlock()
	f.wake()
}

// stall counts a stream whose receiver waits for room until resume, and is not read
// on meanwhile.
func (f *inflow) stall() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.stalled++
	f.calm = false
	f.mu.Unlock()
}

func (f *inflow) resume() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.stalled--
	f.mu.Unlock()
	f.wake()
}

// arm makes sure that the count is looked at when forgetAfter has passed. The caller
// holds mu.
func (f *inflow) arm() {
	switch {
	case f.armed || f.closed:
		return
	case f.forget == nil:
		f.forget = time.AfterFunc(forgetAfter, f.look)
	default:
		f.forget.Reset(forgetAfter)
	}
	f.armed = true
}

// look forgets the count if nothing has stalled for forgetAfter.
func (f *inflow) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	if f.calm && f.stalled == 0 {
		f.add(-f.ahead)
		return
	}
	f.calm = f.stalled == 0
	f.arm()
}

// send counts answers that are being sent, 1 or -1 at a time.
func (f *inflow) send(change int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.sending += change
	stalled := f.stalled > 0
	f.mu.Unlock()
	if stalled {
		f.wake()
	}
}

func (f *inflow) close() {
	f.mu.Lock()
	f.add(-f.ahead)
	f.closed = true
	if f.forget != nil {
		f.forget.Stop()
	}
	f.mu.Unlock()
	f.wake()
}

// takesAppends gives the connection a part in all.
func (f *inflow) takesAppends() {
	if f == nil {
		return
	}
	f.mu.Lock()
	if !f.appends && !f.closed {
		f.appends = true
		f.all.Changed(0, f.ahead)
	}
	f.mu.Unlock()
}

// add changes the count. The caller holds mu.
func (f *inflow) add(bytes int64) {
	if f.closed {
		return
	}
	before := f.ahead
	f.ahead = max(before+bytes, 0)
	if f.appends {
		f.all.Changed(before, f.ahead)
	}
	if f.ahead > 0 {
		f.arm()
	}
}

func (f *inflow) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func onTheWire(message int) int64 {
	return int64(message + messageHeader + (message/frameBytes+1)*frameOverhead)
}
