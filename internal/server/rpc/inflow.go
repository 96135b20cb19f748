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
// waits with more than its share is not read on, and TCP holds its client up. Where no
// handler waits for room, one may wait for the rest of a request: such a connection is
// read on when it has a turn, until it is back to its share. A thousand connections
// would otherwise each hold most of a request. One principal has as many turns as are left for all others, so one that
// begins requests and does not end them keeps nobody else out.
//
// The only request of a call is small, but nobody knows that before it is there. A connection
// without a stream of requests to append has its share of them, and where there is no room at all it
// waits with more than one read brings: its requests are received or given up within requestTime.
//
// Nobody reports what gRPC drops with a stream, so the count
// drifts. What it never went below while nothing stalled for forgetAfter is taken for
// that, if handlers have received as much meanwhile, or it is little. Without a stream
// of requests to append it is what the count never went below for forgetCalls: no call has a request
// that old.
type inflow struct {
	all *budget.Inflow

	mu      sync.Mutex
	appends int    // streams of requests to append, which are handed over
	ahead   int64  // received and not handed over; at least 0
	beside  int64  // what gRPC keeps of the frames of requests to append beside these bytes; at least 0
	added   int64  // what HTTP/2 has added before there was a stream to append, and is not in ahead
	stalled int    // streams whose receiver waits for room
	holder  string // whose share of turns those of the connection are; who sent the first request of its newest stream
	turn    int64  // taken of all.Turns
	turnOf  string // the holder then
	turnEnd int64  // of what is kept, up to which the turn goes
	largest int    // request that was handed over, since the connection was quiet
	// turnAwaited gives up waiting for a turn; nil while nobody does.
	turnAwaited context.CancelFunc
	// sending are answers that have not been written, the last one at takenAt at the latest.
	sending int
	takenAt time.Time
	closed  bool
	calm    bool        // nothing stalled since forget was armed
	lowest  int64       // ahead since then
	handed  int64       // bytes handed over since then
	forget  *time.Timer // nil until the first bytes
	armed   bool
	changed chan struct{} // of capacity 1: whether it may be read
}

const (
	forgetAfter = time.Second
	forgetCalls = requestTime + time.Second
	// lookAgain is how often a connection that is held looks at what the others do.
	lookAgain = 50 * time.Millisecond
	// lookSeldom is the same for one that has no stream to append yet.
	lookSeldom = 8 * lookAgain
	// firstTurn is what a turn takes until requests have been seen.
	firstTurn = 1 << 20
	// stuckTurn is what a turn takes where answers are stuck: behind what the kernel has
	// received, often 6 MiB, is the permission to send them. Where memory is short it comes in several.
	stuckTurn = 8 << 20

	// What HTTP/2 and gRPC add to a message.
	frameBytes    = 16 << 10
	frameOverhead = 9
	messageHeader = 5

	// frameKept is what gRPC holds of a DATA frame until a handler receives it, beside its bytes: its place in the list of what the stream
	// has received (56 bytes, and as many that the list has grown ahead), the head of its buffer, and what the buffer is
	// rounded up by.
	frameKept = 160
)

func newInflow(all *budget.Inflow) *inflow {
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

// await returns when the connection may be read.
func (f *inflow) await() {
	for {
		switch f.look() {
		case read:
			return
		case takeTurn:
			f.awaitTurn()
		case readSlowly:
			f.pause(lookAgain)
			if f.look() == readSlowly {
				return
			}
		case readSeldom:
			f.pause(lookSeldom)
			if f.look() == readSeldom {
				return
			}
		case wait:
			f.pause(lookAgain)
		}
	}
}

// decision is what to do with a connection.
type decision int

const (
	read decision = iota
	// wait: a stream has stalled, and the connection has more than its share. Or it is not known to
	// append, and has more than little while all connections together have more than they should.
	wait
	// takeTurn: it has more than its share, perhaps a part of a request.
	takeTurn
	// readSlowly: it has used up its turn, or is not known to append. Either the
	// request is larger than those before, or its handlers have not come to receive.
	readSlowly
	// readSeldom: it is not known to append, has little, and all connections together have more
	// than they should. Most likely its first handler has not come to receive.
	readSeldom
)

func (f *inflow) look() decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decide()
}

// stuck reports whether answers wait for the client's permission to send, which comes by
// this connection: it has to be read. The caller holds mu.
func (f *inflow) stuck() bool { return f.sending > 0 && time.Since(f.takenAt) >= lookAgain }

// share is what the connection may have. Connections that came before keep what they
// have, though the equal share was more then: where there is no room at all, one read
// has to do.
func (f *inflow) share() int64 {
	if f.all.Full() {
		return 0
	}
	return f.all.Share(math.MaxInt64)
}

// decide also ends a turn that is needed no more. The caller holds mu.
func (f *inflow) decide() decision {
	over := f.kept() - f.share()
	switch {
	case f.closed, over <= 0:
		if f.turn > 0 {
			f.all.Turns.Release(f.turnOf, f.turn)
			f.turn = 0
		}
		return read
	case f.appends == 0 && f.all.Full() && f.ahead > readBuffer:
		return wait
	case f.appends == 0 && f.all.Full():
		return readSeldom
	case f.appends == 0:
		return readSlowly
	case f.stalled > 0 && !f.stuck():
		return wait
	case f.turn == 0:
		return takeTurn
	case f.kept() > f.turnEnd:
		return readSlowly
	}
	return read
}

// pause waits until the connection has changed, or others may have.
func (f *inflow) pause(most time.Duration) {
	again := time.NewTimer(most)
	select {
	case <-f.changed:
	case <-again.C:
	}
	again.Stop()
}

// awaitTurn waits until the connection has a turn or needs none.
func (f *inflow) awaitTurn() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.mu.Lock()
	if f.decide() != takeTurn {
		f.mu.Unlock()
		return
	}
	f.turnAwaited = cancel
	// What is more than a quarter of all turns has no share of them: whoever began it and sent nothing more would keep
	// out all others with as much.
	turn, most := int64(f.largest), f.all.Turns.Size()/4
	if f.stuck() {
		turn = max(turn, stuckTurn)
	}
	turn = max(min(turn, most), firstTurn)
	holder := f.holder
	var again *time.Timer
	again = time.AfterFunc(lookAgain, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wake()
		if f.turnAwaited != nil {
			again.Reset(lookAgain)
		}
	})
	f.mu.Unlock()

	err := f.all.Turns.Acquire(ctx, holder, turn)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turnAwaited = nil
	again.Stop()
	if err == nil {
		f.turn, f.turnOf, f.turnEnd = turn, holder, f.kept()+turn
		f.decide()
	}
}

// received counts what has come: so many bytes, of which data belong to messages, and the DATA frames that began there.
// What gRPC keeps beside a frame's bytes is counted where a connection appends: it is more than a small request. Such a connection
// has what HTTP/2 adds counted as well, which nobody takes out: so where there is no room at all it is not read
// before it has a turn, and a thousand of them do not bring one read each. One that makes calls would be held up by it.
func (f *inflow) received(bytes, data, frames int) {
	f.mu.Lock()
	if f.appends > 0 {
		f.add(int64(bytes), int64(frames))
	} else {
		f.added = min(f.added+int64(bytes-data), readBuffer)
		f.add(int64(data), 0)
	}
	f.mu.Unlock()
}

// handOver counts a message that a handler has received.
func (f *inflow) handOver(bytes int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.largest = max(f.largest, bytes)
	f.handed += onTheWire(bytes)
	f.remove(onTheWire(bytes))
	f.wake()
	f.mu.Unlock()
}

// handOverCall counts a message that a handler other than one of requests to append has received.
func (f *inflow) handOverCall(bytes int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.handed += onTheWire(bytes)
	f.remove(onTheWire(bytes))
	f.wake()
	f.mu.Unlock()
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
	f.wake()
	f.mu.Unlock()
}

// arm makes sure that the count is checked when forgetAfter or forgetCalls has passed. The caller
// holds mu.
func (f *inflow) arm() {
	after := forgetAfter
	if f.appends == 0 {
		after = forgetCalls
	}
	switch {
	case f.armed || f.closed:
		return
	case f.forget == nil:
		f.forget = time.AfterFunc(after, f.check)
	default:
		f.forget.Reset(after)
	}
	f.armed, f.lowest, f.handed = true, f.ahead, 0
}

// check forgets what has only drifted into the count.
func (f *inflow) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	switch quiet := f.handed == 0 && f.lowest == f.ahead; {
	case !f.calm || f.stalled > 0:
	case f.appends == 0:
		f.largest = 0
		f.remove(f.lowest)
	case quiet && f.ahead <= readBuffer:
		f.largest = 0
		f.remove(f.ahead)
	case f.handed >= f.lowest:
		f.remove(f.lowest)
	}
	f.calm = f.stalled == 0
	if f.ahead > 0 {
		f.arm()
	}
}

// send counts answers that are being sent.
func (f *inflow) send(change int) {
	if f == nil || change == 0 {
		return
	}
	f.mu.Lock()
	f.sending += change
	if change < 0 || f.sending == 1 {
		f.takenAt = time.Now()
	}
	f.mu.Unlock()
}

func (f *inflow) close() {
	f.mu.Lock()
	f.remove(f.ahead)
	f.closed = true
	if f.forget != nil {
		f.forget.Stop()
	}
	f.decide()
	f.wake()
	f.mu.Unlock()
}

// belongs notes whose the streams are that are served from here on.
func (f *inflow) belongs(holder string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.holder = holder
	f.mu.Unlock()
}

// serve counts streams of requests to append, 1 or -1 at a time.
func (f *inflow) serve(change int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.appends += change
	if f.appends > 0 {
		added := f.added
		f.added = 0
		f.add(added, 0)
	}
	if f.armed && f.forget.Stop() { // it is another time now
		f.armed = false
		f.arm()
	}
	f.wake()
	f.mu.Unlock()
}

// kept is what gRPC holds of what has come. The caller holds mu.
func (f *inflow) kept() int64 { return f.ahead + f.beside }

// add counts bytes that have come, and the frames that began there. The caller holds mu.
func (f *inflow) add(bytes, frames int64) { f.set(f.ahead+bytes, f.beside+frames*frameKept) }

// remove takes bytes out of the count that are there no more, and as large a part of what is kept beside them: a client
// may send several requests in one frame, or one in several. The caller holds mu.
func (f *inflow) remove(bytes int64) {
	ahead, beside := f.ahead-bytes, int64(0)
	if ahead > 0 {
		beside = int64(float64(f.beside) * float64(ahead) / float64(f.ahead))
	}
	f.set(max(ahead, 0), beside)
}

// set changes the count. The caller holds mu.
func (f *inflow) set(ahead, beside int64) {
	if f.closed {
		return
	}
	before := f.kept()
	f.ahead, f.beside = ahead, beside
	f.lowest = min(f.lowest, f.ahead)
	f.all.Changed(before, f.kept())
	if f.ahead > 0 {
		f.arm()
	}
}

// wake lets a reader that waits look again, and a turn end. The caller holds mu.
func (f *inflow) wake() {
	if f.turn > 0 || f.turnAwaited != nil {
		if f.decide() != takeTurn && f.turnAwaited != nil {
			f.turnAwaited()
		}
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func onTheWire(message int) int64 {
	return int64(message + messageHeader + (message/frameBytes+1)*frameOverhead)
}
