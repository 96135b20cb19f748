package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestAWriterLeaseIsWatchedReleasedAndHandedOver(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	admin := c.Admin()
	states := make(chan client.WriterState)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(states)
		last := client.WriterState{Term: 1 << 60}
		for s, err := range admin.WatchWriter(ctx, "orders", 0) {
			if err != nil {
				return
			}
			if s.Term != last.Term || s.Held != last.Held {
				last = s
				select {
				case states <- s:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	require.Equal(t, client.WriterState{}, <-states)

	claim := client.WriterClaim{Name: "first", Payload: []byte("10.0.0.1:80"), Lease: 3 * time.Second}
	first, err := c.LeaseWriter(t.Context(), "orders", claim)
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Term())
	s := <-states
	require.True(t, s.Held)
	require.Equal(t, claim, s.WriterClaim)
	require.WithinDuration(t, time.Now(), s.Since, time.Minute)
	require.Positive(t, s.Left)

	p, err := c.Producer(t.Context(), "orders", client.WithWriterTerm(first.Term()))
	require.NoError(t, err)
	_, err = p.Append(t.Context(), []byte("of the first"))
	require.NoError(t, err)
	grant, err := admin.LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "brief", Lease: time.Second}, 0)
	require.NoError(t, err)
	require.Zero(t, grant.Term)
	require.Equal(t, "first", grant.State.Name)

	wait := func(name string) chan *client.WriterLease {
		got := make(chan *client.WriterLease, 1)
		go func() {
			defer close(got)
			if w, err := c.LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: name, Lease: 3 * time.Second}); err == nil {
				got <- w
			}
		}()
		return got
	}
	second := wait("second")
	require.ErrorIs(t, first.HandOver(t.Context(), "nobody"), client.ErrPrecondition)
	require.NoError(t, first.Err())
	require.Eventually(t, func() bool { return first.HandOver(t.Context(), "second") == nil }, time.Minute, time.Millisecond, "until it waits")
	<-first.Done()
	require.NoError(t, first.Err())
	w := <-second
	require.EqualValues(t, 2, w.Term())
	require.EqualValues(t, 1, w.End())
	_, err = p.Append(t.Context(), []byte("of the first, later"))
	require.ErrorIs(t, err, client.ErrFenced)
	_ = p.Close(t.Context())

	// By force: the holder learns that with its next renewal.
	_, _, err = admin.AcquireWriter(t.Context(), "orders")
	require.NoError(t, err)
	<-w.Done()
	require.ErrorIs(t, w.Err(), client.ErrFenced)
	require.NoError(t, w.Release(t.Context()), "that it has ended is what was asked for")
	require.ErrorIs(t, admin.KeepWriter(t.Context(), "orders", 2), client.ErrFenced)
	require.ErrorIs(t, admin.ReleaseWriter(t.Context(), "orders", 2, ""), client.ErrFenced)
	var held []bool
	for s := range states {
		if held = append(held, s.Held); s.Term == 3 {
			cancel()
		}
	}
	require.NotEmpty(t, held)
	require.False(t, held[len(held)-1])
}

// The least lease is a second: by the time that the lease has passed to one that waits, it would
// have ended several times if it were not renewed.
func TestAWriterLeaseIsKeptUntilItIsClosed(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	w, err := c.LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "kept", Lease: 3 * time.Second})
	require.NoError(t, err)
	until := w.Until()
	grant, err := c.Admin().LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "next", Lease: time.Second}, 7*time.Second)
	require.NoError(t, err)
	require.Zero(t, grant.Term)
	require.NoError(t, w.Err())
	require.True(t, w.Until().After(until))
	w.Close()
	<-w.Done()
	grant, err = c.Admin().LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "next", Lease: time.Second}, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 2, grant.Term)
}
