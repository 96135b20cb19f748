package statemachine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// mails is a machine of mails that are due, by the offset of the order that needs one.
type mails struct{ Due map[string]string }

func (m *mails) Apply(r client.Record) (string, error) {
	if len(r.Headers) > 0 && r.Headers[0].Key == "sent" {
		delete(m.Due, string(r.Headers[0].Value))
		return "", nil
	}
	id := strconv.FormatInt(r.Offset, 10)
	m.Due[id] = string(r.Value)
	return id, nil
}

func (m *mails) Snapshot() (io.WriterTo, error) {
	text, err := json.Marshal(m)
	return bytes.NewBuffer(text), err
}

func (m *mails) Restore(r io.Reader) error { return json.NewDecoder(r).Decode(m) }

func (m *mails) next() (statemachine.Effect, bool) {
	for id, to := range m.Due {
		return statemachine.Effect{
			ID: id, Payload: []byte(to), Done: client.Record{Headers: []client.Header{{Key: "sent", Value: []byte(id)}}},
		}, true
	}
	return statemachine.Effect{}, false
}

// post is what mails are given to. It recognizes repetitions.
type post struct {
	mu       sync.Mutex
	sent     map[string]string
	repeated int
	changed  chan struct{}
}

func (p *post) send(_ context.Context, e statemachine.Effect) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.sent[e.ID]; again {
		p.repeated++
	}
	p.sent[e.ID] = string(e.Payload)
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return nil
}

func (p *post) await(n int) {
	for {
		p.mu.Lock()
		done := len(p.sent) >= n
		p.mu.Unlock()
		if done {
			return
		}
		<-p.changed
	}
}

func TestEffectsThatAreDueArePerformedAndNotRepeatedAfterARestart(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	p := &post{sent: map[string]string{}, changed: make(chan struct{}, 1)}
	open := func() (*mails, *statemachine.Replica[string]) {
		m := &mails{Due: map[string]string{}}
		r, err := statemachine.Open(t.Context(), e.c, logName, m)
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		return m, r
	}
	m, r := open()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.RunEffects(ctx, m.next, p.send) }()
	for range 10 {
		_, err := r.Propose(t.Context(), client.Record{Value: []byte("alice")})
		require.NoError(t, err)
	}
	p.await(10)
	for left := 1; left > 0; {
		require.NoError(t, r.Query(t.Context(), statemachine.Linearizable, func() { left = len(m.Due) }))
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Zero(t, p.repeated)

	// One is killed after it has sent a mail, and before the log knows.
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		ended <- r.RunEffects(ctx, m.next, func(ctx context.Context, e statemachine.Effect) error {
			defer cancel()
			return p.send(ctx, e)
		})
	}()
	applied, err := r.Propose(t.Context(), client.Record{Value: []byte("bob")})
	require.NoError(t, err)
	require.Error(t, <-ended)
	other, again := open()
	ctx, cancel = context.WithCancel(t.Context())
	failed := false
	go func() {
		ended <- again.RunEffects(ctx, other.next, func(ctx context.Context, e statemachine.Effect) error {
			if !failed {
				failed = true
				return errors.New("the post is closed")
			}
			return p.send(ctx, e)
		})
	}()
	for left := 1; left > 0; {
		require.NoError(t, again.Query(t.Context(), statemachine.Linearizable, func() { left = len(other.Due) }))
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.True(t, failed)
	require.Equal(t, "bob", p.sent[applied.Result])
	require.Len(t, p.sent, 11)
	require.LessOrEqual(t, p.repeated, 1, "the one whose Done record was not sent, with the same ID")
}
