package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

var (
	// ErrNotConnected means that there is no connection to the node. Nothing was sent.
	ErrNotConnected = errors.New("peer: no connection to the node now; try again")
	// ErrBusy means that the queue for the node is full, and nothing was sent. A *RemoteError is
	// ErrBusy if the node has no room for the call; it has processed nothing of it.
	ErrBusy = errors.New("peer: too much is queued for the node; try again")
	// ErrConnectionLost means that the connection ended before the answer arrived. The node may
	// have answered the call, or may still do so.
	ErrConnectionLost = errors.New("peer: the connection was lost before the answer came")
)

// A RemoteError is an error that the Answer function of the other node returned.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// Is reports whether target is ErrBusy and the call was refused before anything was done. Nodes
// send only the text of an error, and those of earlier releases send the same texts.
func (e *RemoteError) Is(target error) bool {
	return target == ErrBusy && (e.Text == errNoMemory.Error() || e.Text == errTooMuch.Error())
}

func (c *connection) call(ctx context.Context, kind string, request []byte) ([]byte, error) {
	if len(kind) > maxKind {
		return nil, fmt.Errorf("peer: the kind of a call has %d bytes, the limit is %d", len(kind), maxKind)
	}
	message := net.Buffers{append([]byte{byte(len(kind))}, kind...), request}
	if n := size(message); n > MaxMessage {
		c.mesh.options.countTooLarge()
		return nil, fmt.Errorf("peer: call %s has %d bytes, the limit is %d", kind, n, MaxMessage)
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
		case r := <-answered: // it arrived before the end
			return r.payload, r.err
		default:
			return nil, fmt.Errorf("%w (%w)", ErrConnectionLost, context.Cause(c.context))
		}
	case <-ctx.Done():
		// In the lane of the call, so that it does not overtake the call. If there is no room,
		// the other side only works in vain.
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

// answers holds the calls of the other side that are being answered.
type answers struct {
	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	bytes   int // bytes of their requests
	most    int
}

func (a *answers) begin(number uint64, bytes int, cancel context.CancelFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.running[number] != nil:
		return fmt.Errorf("%w: call %d was received twice", errBadFrame, number)
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
		return fmt.Errorf("%w: a call has no kind", errBadFrame)
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
	// This must not wait for room: a node that sends too many calls and does not read the answers
	// loses the connection.
	if !c.queue.put(header{kind: failureFrame, lane: urgent, log: number}, net.Buffers{[]byte(err.Error())}) {
		return err
	}
	return nil
}

// respond answers one call. The call counts as running until its answer has room in the queue,
// which limits the answers that wait.
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
		return // an error caused by the end of the connection is not an answer: the outcome is unknown
	}
	if err == nil && len(response) > MaxMessage {
		err = fmt.Errorf("the answer to %s has %d bytes, the limit is %d", kind, len(response), MaxMessage)
		c.mesh.options.countTooLarge()
		c.mesh.log.Error("an answer to a node is too large and is not sent", "node", c.from, "question", kind, "bytes", len(response))
	}
	if err != nil {
		c.queue.putWhenRoom(header{kind: failureFrame, lane: urgent, log: number}, net.Buffers{[]byte(cut(err.Error()))})
		return
	}
	c.queue.putWhenRoom(header{kind: answerFrame, lane: laneOf(len(response)), log: number}, net.Buffers{response})
}
