package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACallIsAnsweredAndItsErrorComesBack(t *testing.T) {
	a, b := pair(t, func(o *Options) {
		o.Answer = func(_ context.Context, from NodeID, kind string, request []byte) ([]byte, error) {
			if kind == "fail" {
				return nil, errors.New("no such log")
			}
			return append([]byte(kind), request...), nil
		}
	})
	large := bytes.Repeat([]byte("x"), 5<<20)
	got, err := b.Call(t.Context(), 1, "echo", large)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append([]byte("echo"), large...), got))
	_, err = a.Call(t.Context(), 2, "fail", nil)
	require.Equal(t, &RemoteError{"no such log"}, err)
	require.NotErrorIs(t, err, ErrBusy)
	_, err = a.Call(t.Context(), 3, "echo", nil)
	require.ErrorIs(t, err, ErrNotConnected)
}

// stuck returns nodes of which an answer waits for its context to end.
func stuck(t *testing.T) (a, b *member, began, ended chan struct{}) {
	began, ended = make(chan struct{}, maxAnswering), make(chan struct{}, maxAnswering)
	a, b = pair(t, func(o *Options) {
		o.Answer = func(ctx context.Context, _ NodeID, _ string, _ []byte) ([]byte, error) {
			began <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}
	})
	return a, b, began, ended
}

func TestACallerThatGivesUpEndsTheAnswerToo(t *testing.T) {
	a, _, began, ended := stuck(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	_, err := a.Call(ctx, 2, "wait", nil)
	require.ErrorIs(t, err, context.Canceled)
	next(t, ended)
}

func TestACallWhoseConnectionIsLostFails(t *testing.T) {
	a, b, began, ended := stuck(t)
	go func() {
		<-began
		b.Close()
	}()
	_, err := a.Call(t.Context(), 2, "wait", nil)
	require.ErrorIs(t, err, ErrConnectionLost)
	next(t, ended)
}

// A node that closes ends its answers and its connections. The writer may still run: it
// must not send as the answer what the end made of it.
func TestWhatTheEndOfAConnectionMakesOfACallIsNotSent(t *testing.T) {
	m := New(Options{Answer: func(ctx context.Context, _ NodeID, _ string, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c := newConnection(m, &timedReader{}, nil, 2, "", false, false)
	ctx, cancel := context.WithCancel(c.context)
	require.NoError(t, c.answers.begin(7, 1, cancel))
	m.Close()
	c.respond(ctx, 7, "wait", nil, 1)
	require.Zero(t, c.queue.bytes())
}

// endOfAll is a context that lets something happen when its caller begins to wait.
type endOfAll struct {
	context.Context
	happen func()
}

func (e endOfAll) Done() <-chan struct{} {
	e.happen()
	return nil
}

func TestAnAnswerThatCameBeforeTheConnectionWasLostCounts(t *testing.T) {
	m := New(Options{})
	for range 50 { // a choice among what is ready is made at random
		c := newConnection(m, &timedReader{}, nil, 2, "", false, false)
		got, err := c.call(endOfAll{t.Context(), func() {
			c.calls.resolve(1, reply{payload: []byte("yes")})
			c.close(io.EOF)
		}}, "ask", nil)
		require.NoError(t, err)
		require.Equal(t, "yes", string(got))
	}
	m.Close()
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	a, _, began, _ := stuck(t)
	go func() {
		<-began
		a.Close()
	}()
	_, err := a.Call(t.Context(), 2, "wait", nil)
	require.ErrorIs(t, err, ErrConnectionLost)
	_, err = a.Ask(t.Context(), a.node.Address, "x", nil)
	require.Error(t, err)
}

func TestANodeInNoClusterMayAskAndBeAsked(t *testing.T) {
	a, b := newMember(t, 1), newMember(t, 2)
	got, err := a.Ask(t.Context(), b.node.Address, "who", []byte("me"))
	require.NoError(t, err)
	require.Equal(t, "0 who me", string(got))
	join(a, b)
	got, err = a.Ask(t.Context(), a.node.Address, "who", []byte("self"))
	require.NoError(t, err)
	require.Equal(t, "1 who self", string(got))
}

func TestACallBeyondTheBoundIsAnsweredWithAnError(t *testing.T) {
	a, _, began, _ := stuck(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxAnswering)
	for range maxAnswering {
		go func() {
			_, err := a.Call(ctx, 2, "wait", nil)
			ended <- err
		}()
	}
	for range maxAnswering {
		next(t, began)
	}
	_, err := a.Call(t.Context(), 2, "one more", nil)
	require.Equal(t, &RemoteError{errTooMuch.Error()}, err)
	require.ErrorIs(t, err, ErrBusy)
	cancel()
	for range maxAnswering {
		require.ErrorIs(t, next(t, ended), context.Canceled)
	}
}
