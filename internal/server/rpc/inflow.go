package rpc

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"strandline.dev/internal/budget"
)

// inflow counts the bytes that one connection has received and no handler has read yet. gRPC
// returns the window of a connection as soon as bytes arrive, and each stream has its own window:
// on streams whose requests wait for memory, gRPC would accept streamWindow each. So while all
// connections together hold too much, a connection with more than its share is not read, and TCP
// blocks its client. If no handler of the connection waits for memory, one may wait for the rest of
// a request. Such a connection needs a turn, and is read until it is below its share again;
// otherwise a thousand connections would each hold most of a request. One principal gets at most as
// many turns as are left for all others, so a principal that begins requests and does not complete
// them blocks no other connection.
//
// The only request of a call is small, but its size is unknown until it arrives. A connection
// without an append stream gets the share of one with an append stream. While there is no room at
// all, it waits if it holds more than one read: its requests are read or dropped within
// requestTime.
//
// gRPC does not report the data that it drops with a stream, so the count drifts. If nothing
// stalled for forgetAfter, the minimum of the count during that time is considered drift, provided
// that handlers read as much meanwhile, or the count is small. For a connection without an append
// stream, the minimum during forgetCalls is considered drift: no call has a request that old.
type inflow struct {
	all *budget.Inflow

	mu      sync.Mutex
	appends int    // streams of requests to append, which are handed over
	ahead   int64  // received and not handed over; at least 0
	beside  int64  // what gRPC keeps of the frames of requests to append beside these bytes; at least 0
	added   int64  // what HTTP/2 has added before there was a stream to append, and is not in ahead
	stalled int    // streams whose receiver waits for room
	holder  string // the sender of the first request of the newest stream: the turns of the connection count for it
	turn    int64  // taken of all.Turns
	turnOf  string // the holder then
	turnEnd int64  // of what is kept, up to which the turn goes
	largest int    // request that was handed over, since the connection was quiet
	// turnAwaited cancels the wait for a turn; nil if there is none.
	turnAwaited context.CancelFunc
	// sending counts answers that have not been written. takenAt is when the last one was written,
	// or sending began.
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
	// lookAgain is how often a blocked connection checks the others.
	lookAgain = 50 * time.Millisecond
	// lookSeldom is the same for one that has no stream to append yet.
	lookSeldom = 8 * lookAgain
	// firstTurn is the size of a turn before any request was read.
	firstTurn = 1 << 20
	// stuckTurn is the size of a turn if answers are stuck: the client's permission to send them
	// follows the data that the kernel has received, often 6 MiB. If memory is short, several turns
	// are needed.
	stuckTurn = 8 << 20

	// What HTTP/2 and gRPC add to a message.
	frameBytes    = 16 << 10
	frameOverhead = 9
	messageHeader = 5

	// frameKept is the memory that gRPC holds for a DATA frame, in addition to its bytes, until a
	// handler reads it: an element in the list of received data (56 bytes, and as many for the
	// growth of the list), the header of its buffer, and the rounding of the buffer.
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
	// readSlowly: the connection has used up its turn, or has no append stream. Either the request
	// is larger than earlier ones, or its handlers have not called receive yet.
	readSlowly
	// readSeldom: the connection has no append stream and holds little, and all connections
	// together hold too much. Most likely its first handler has not called receive yet.
	readSeldom
)

func (f *inflow) look() decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decide()
}

// stuck reports whether answers wait for the client's permission to send. It arrives on this
// connection, so the connection must be read. The caller holds mu.
func (f *inflow) stuck() bool { return f.sending > 0 && time.Since(f.takenAt) >= lookAgain }

// share returns the number of bytes that the connection may hold. Earlier connections keep the data
// that they received when the equal share was larger. So while there is no room at all, the share
// is 0, and one read must suffice.
func (f *inflow) share() int64 {
	if f.all.Full() {
		return 0
	}
	return f.all.Share(math.MaxInt64)
}

// decide returns what to do with the connection. It also releases a turn that is no longer needed.
// The caller holds mu.
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

// pause waits until the state of this connection changes, for at most the given time, because
// others may have changed.
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
	// A turn is at most a quarter of all turns: a client that began a larger request and sent
	// nothing more would block all others.
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

// received counts received bytes, the part of them that belongs to messages (data), and the DATA
// frames that begin in them. For a connection with an append stream it also counts the memory that
// gRPC keeps for each frame, which exceeds a small request, and the bytes that HTTP/2 adds, which
// nothing subtracts later. So without any room such a connection is not read before it has a turn,
// and a thousand of them do not add one read each. A connection with calls only would be blocked by
// these bytes.
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

// kept returns the memory that gRPC holds for unread data. The caller holds mu.
func (f *inflow) kept() int64 { return f.ahead + f.beside }

// add counts bytes that have come, and the frames that began there. The caller holds mu.
func (f *inflow) add(bytes, frames int64) { f.set(f.ahead+bytes, f.beside+frames*frameKept) }

// remove subtracts bytes that were read or dropped, and the same fraction of the memory kept for
// frames: a client may send several requests in one frame, or one request in several. The caller
// holds mu.
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

// wake makes a waiting reader check again, and releases a turn that is no longer needed. The caller
// holds mu.
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
