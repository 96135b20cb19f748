package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

var (
	// ErrNotConnected: the node cannot be reached now. Nothing was sent.
	ErrNotConnected = errors.New("peer: no connection to the node now; try again")
	// ErrBusy: too much is queued for the node. Nothing was sent. A *RemoteError is ErrBusy if the node has
	// no room for the call, of which it has done nothing.
	ErrBusy = errors.New("peer: too much is queued for the node; try again")
	// ErrConnectionLost: the connection ended before the answer came. The node
	// may have done what it was asked, or may still.
	ErrConnectionLost = errors.New("peer: the connection was lost before the answer came")
)

// RemoteError is an error that the other side's Answer returned.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// Is reports whether target is ErrBusy and the call was refused before anything was done. The texts are all that
// a node sends of it, those of earlier releases too.
func (e *RemoteError) Is(target error) bool {
	return target == ErrBusy && (e.Text == errNoMemory.Error() || e.Text == errTooMuch.Error())
}

func (c *connection) call(ctx context.Context, kind string, request []byte) ([]byte, error) {
	if len(kind) > maxKind {
		return nil, fmt.Errorf("peer: the kind of a call has %d bytes, at most %d are allowed", len(kind), maxKind)
	}
	message := net.Buffers{append([]byte{byte(len(kind))}, kind...), request}
	if n := size(message); n > MaxMessage {
		c.mesh.options.countTooLarge()
		return nil, fmt.Errorf("peer: call %s has %d bytes, at most %d are allowed", kind, n, MaxMessage)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	number, answered := c.calls.begin()
	defer c.calls.forget(number)
	if !c.queue.put(header{kind: callFrame, lane: laneOf(len(request)), log: number}, message) {
		if c.context.Err() != nil {
			return nil, ErrNotConnected
		}
		return nil, ErrBusy
	}
	select {
	case r := <-answered:
		return r.payload, r.err
	case <-c.context.Done():
		select {
		case r := <-answered: // it came before the end
			return r.payload, r.err
		default:
			return nil, fmt.Errorf("%w (%w)", ErrConnectionLost, context.Cause(c.context))
		}
	case <-ctx.Done():
		// In the lane of the call, so as not to overtake it. If there is no room
		// the other side works in vain, no more.
		c.queue.put(header{kind: cancelFrame, lane: laneOf(len(request)), log: number}, nil)
		return nil, ctx.Err()
	}
}

func laneOf(bytes int) lane {
	if bytes <= urgentCall {
		return urgent
	}
	return bulk
}

// answers are the calls of the other side that are being answered.
type answers struct {
	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	bytes   int // of their requests
	most    int
}

func (a *answers) begin(number uint64, bytes int, cancel context.CancelFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.running[number] != nil:
		return fmt.Errorf("%w: call %d is asked twice", errBadFrame, number)
	case len(a.running) >= maxAnswering || a.bytes+bytes > a.most:
		return errTooMuch
	}
	a.running[number] = cancel
	a.bytes += bytes
	return nil
}

func (a *answers) end(number uint64, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[number]()
	delete(a.running, number)
	a.bytes -= bytes
}

func (a *answers) cancel(number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel := a.running[number]; cancel != nil {
		cancel()
	}
}

var errTooMuch = errors.New("this node is answering too many calls of the same node; try again")

// answer starts to answer a call. An error ends the connection.
func (c *connection) answer(number uint64, payload []byte) error {
	if len(payload) == 0 || len(payload) < 1+int(payload[0]) {
		return fmt.Errorf("%w: a call without its kind", errBadFrame)
	}
	kind, request := string(payload[1:1+payload[0]]), payload[1+payload[0]:]
	ctx, cancel := context.WithCancel(c.context)
	err := c.answers.begin(number, len(payload), cancel)
	if err == nil && !c.mesh.start(func() { c.respond(ctx, number, kind, request, len(payload)) }) {
		c.answers.end(number, len(payload))
		return ErrClosed
	}
	if err == nil {
		return nil
	}
	cancel()
	if !errors.Is(err, errTooMuch) {
		return err
	}
	// Nothing may wait for room here: a node that sends so many calls and does
	// not read the answers loses the connection.
	if !c.queue.put(header{kind: failureFrame, lane: urgent, log: number}, net.Buffers{[]byte(err.Error())}) {
		return err
	}
	return nil
}

// respond answers one call. It counts as running until its answer has room in
// the queue, which bounds the answers that wait.
func (c *connection) respond(ctx context.Context, number uint64, kind string, request []byte, bytes int) {
	defer c.answers.end(number, bytes)
	answer := c.mesh.options.Answer
	if answer == nil {
		answer = func(context.Context, NodeID, string, []byte) ([]byte, error) {
			return nil, errors.New("this node answers no calls")
		}
	}
	response, err := answer(ctx, c.from, kind, request)
	if c.context.Err() != nil {
		return // what the end of the connection makes of a call is no answer: its outcome is unknown
	}
	if err == nil && len(response) > MaxMessage {
		err = fmt.Errorf("the answer to %s has %d bytes, at most %d are allowed", kind, len(response), MaxMessage)
		c.mesh.options.countTooLarge()
		c.mesh.log.Error("an answer for a node is too large and is not sent", "node", c.from, "question", kind, "bytes", len(response))
	}
	if err != nil {
		c.queue.putWhenRoom(header{kind: failureFrame, lane: urgent, log: number}, net.Buffers{[]byte(cut(err.Error()))})
		return
	}
	c.queue.putWhenRoom(header{kind: answerFrame, lane: laneOf(len(response)), log: number}, net.Buffers{response})
}
