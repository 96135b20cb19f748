package client_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
)

// What cannot be right is refused before anything is sent.
func TestOptionsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	c := f.client(t)
	for name, ask := range map[string]func() error{
		"a lease of 0": func() error {
			_, err := c.Producer(t.Context(), "orders", client.WithLease(0))
			return err
		},
		"a negative lease": func() error {
			_, err := c.Producer(t.Context(), "orders", client.WithLease(-time.Second))
			return err
		},
		"a negative lease of a session": func() error {
			_, err := c.Admin().OpenSession(t.Context(), "orders", -time.Second)
			return err
		},
		"a negative expected end": func() error {
			p := f.producer(t)
			_, err := p.AppendBatch(t.Context(), []client.Record{{}}, client.WithExpectedEnd(-1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask()
			require.ErrorIs(t, err, client.ErrInvalid)
			require.Equal(t, client.NotDone, outcomeOf(t, err))
		})
	}
	require.EqualValues(t, 1, f.opened, "the session of the producer that asks for an expected end")
	require.Zero(t, f.requests)
}

// A token that was read from a file ends with the file's line break. No header can carry it.
func TestATokenThatNoHeaderCanCarryIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"secret\n", "sec ret", "secret\r\n", "sécret"} {
		_, err := client.Dial([]string{"127.0.0.1:1"}, client.WithToken(token))
		require.ErrorIs(t, err, client.ErrInvalid)
		require.NotContains(t, err.Error(), "ret")
	}
}

// An answer that was asked for before a caller came may lack what was acknowledged to it since.
func TestCallersOfEndShareCallsThatBeginAfterTheyCame(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	f.describe = func(_ *strandlinev1.GetInfoRequest, info *strandlinev1.LogInfo) error {
		end := info.EndOffset
		f.mu.Unlock()
		defer f.mu.Lock()
		select {
		case asked <- struct{}{}:
		case <-t.Context().Done():
			return t.Context().Err()
		}
		select {
		case <-answer:
		case <-t.Context().Done():
			return t.Context().Err()
		}
		info.EndOffset = end
		return nil
	}
	c := f.client(t)
	var callers sync.WaitGroup
	ask := func(want int64) {
		callers.Go(func() {
			end, err := c.End(t.Context(), "orders")
			require.NoError(t, err)
			require.Equal(t, want, end)
		})
	}
	ask(0)
	<-asked
	f.mu.Lock()
	f.end = 7
	f.mu.Unlock()
	for range 20 {
		ask(7)
	}
	require.Eventually(t, func() bool { return client.Waits(c, "orders") }, time.Minute, time.Millisecond)
	answer <- struct{}{}
	<-asked
	close(answer)
	go func() { // callers that were late
		for range asked {
		}
	}()
	callers.Wait()
	close(asked)
}
