package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/wire"
)

// A caller that stops waiting can get the outcome of its record later, whether it
// had been sent by then or not.
func TestARecordThatIsNotWaitedForCanBeResolved(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	answers := make(chan struct{})
	f.answer = func() { <-answers }
	p := f.producer(t, client.WithMaxInFlightRequests(1), client.WithMaxRequestBytes(100))
	const records = 10
	places := make([]*client.Error, records)
	for i := range places {
		future, err := p.Send(t.Context(), client.Record{Value: fmt.Appendf(nil, "%050d", i)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = future.Offset(ctx)
		require.ErrorIs(t, err, client.ErrCancelled)
		require.ErrorAs(t, err, &places[i])
		require.Equal(t, client.MaybeDone, places[i].Outcome)
		require.NotZero(t, places[i].SessionID)
		require.EqualValues(t, i, places[i].Sequence)
	}
	close(answers)
	require.NoError(t, p.Flush(t.Context()))
	seen := map[uint64]int{}
	for _, s := range f.seen {
		require.Equal(t, places[0].SessionID, s.session)
		require.Equal(t, places[0].Epoch, s.epoch)
		for n := range s.records {
			seen[s.first+uint64(n)]++
		}
	}
	for _, e := range places {
		require.Equal(t, 1, seen[e.Sequence], "sequence %d", e.Sequence)
	}
	r, err := f.client(t).Admin().Resolve(t.Context(), "orders", places[0].Position(), false)
	require.NoError(t, err)
	require.Equal(t, client.Committed, r.State)
}

func TestASessionGoesOnInAnotherProducer(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.id = 7
	p := f.producer(t, client.WithEndOnFailure())
	require.Equal(t, client.SessionPosition{LogID: 7, Session: 1}, p.Position())
	for _, value := range []string{"a", "b", "c"} {
		_, err := p.Append(t.Context(), []byte(value))
		require.NoError(t, err)
	}
	at := p.Position()
	require.Equal(t, client.SessionPosition{LogID: 7, Session: 1, Next: 3}, at)

	// The program that was restarted knows only what it kept before "b".
	again := f.producer(t, client.WithSession(client.SessionPosition{LogID: 7, Session: 1, Next: 1}))
	offset, err := again.Append(t.Context(), []byte("b"))
	require.NoError(t, err)
	require.EqualValues(t, 1, offset, "it was there already")
	_, err = again.Append(t.Context(), []byte("c"))
	require.NoError(t, err)
	_, err = again.Append(t.Context(), []byte("d"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, f.values(t))
	require.EqualValues(t, 1, f.count(&f.kept), "whether the session is there is asked first")
	require.EqualValues(t, 1, f.opened)

	_, err = f.client(t).Producer(t.Context(), "orders", client.WithoutSession(), client.WithSession(at))
	require.ErrorIs(t, err, client.ErrInvalid)
	f.keep = func(context.Context) error { return refuse(record.SessionExpired) }
	_, err = f.client(t).Producer(t.Context(), "orders", client.WithSession(at))
	require.ErrorIs(t, err, client.ErrSessionExpired)
}

func TestAProducerThatEndsOnFailureGoesOnInNoOtherEpoch(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.decide = func(n int, _ *wire.AppendRequest) fate {
		if n == 1 {
			return fate{refuse: record.Full}
		}
		return fate{}
	}
	p := f.producer(t, client.WithEndOnFailure())
	_, err := p.Append(t.Context(), []byte("a"))
	require.NoError(t, err)
	for range 2 {
		_, err = p.Append(t.Context(), []byte("b"))
		require.ErrorIs(t, err, client.ErrFull)
	}
	require.Equal(t, []string{"a"}, f.values(t))
}

// A refusal that this client does not know may have been appended, and what was
// sent behind it then too.
func TestAnUnknownRefusalLeavesNothingSaidThatIsNotTrue(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	hold := make(chan struct{})
	f.answer = func() { <-hold }
	f.decide = func(n int, _ *wire.AppendRequest) fate {
		if n == 0 {
			return fate{refuse: record.Reason(200), appendedOnly: true}
		}
		return fate{}
	}
	p := f.producer(t, client.WithMaxRequestBytes(1))
	var futures []*client.Future
	for i := range 3 {
		future, err := p.Send(t.Context(), client.Record{Value: fmt.Append(nil, i)})
		require.NoError(t, err)
		futures = append(futures, future)
	}
	require.Eventually(t, func() bool { return f.count(&f.requests) == 3 }, time.Minute, time.Millisecond)
	close(hold)
	at := map[string]bool{}
	require.NoError(t, p.Flush(t.Context()))
	for _, value := range f.values(t) {
		at[value] = true
	}
	for i, future := range futures {
		_, err := future.Offset(t.Context())
		var e *client.Error
		if errors.As(err, &e) && e.Outcome == client.NotDone {
			require.False(t, at[fmt.Sprint(i)], "record %d is in the log: %v", i, err)
		}
	}
}
