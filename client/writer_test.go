package client_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/record"
)

func (f *fakeServer) LeaseWriter(context.Context, *strandlinev1.LeaseWriterRequest) (*strandlinev1.LeaseWriterResponse, error) {
	return f.leaseWriter()
}

func (f *fakeServer) KeepWriter(context.Context, *strandlinev1.KeepWriterRequest) (*strandlinev1.KeepWriterResponse, error) {
	return &strandlinev1.KeepWriterResponse{}, f.keepWriter()
}

func (f *fakeServer) ReleaseWriter(context.Context, *strandlinev1.ReleaseWriterRequest) (*strandlinev1.ReleaseWriterResponse, error) {
	return &strandlinev1.ReleaseWriterResponse{}, f.releaseWriter()
}

func (f *fakeServer) WatchWriter(_ *strandlinev1.WatchWriterRequest, s grpc.ServerStreamingServer[strandlinev1.WatchWriterResponse]) error {
	return f.watchWriter(s)
}

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

// Two programs that wait under one name take the place in line from each other: each is answered as
// soon as the other one calls.
func TestAProgramWhosePlaceInLineIsTakenPausesBeforeItCallsAgain(t *testing.T) {
	t.Parallel()
	const taken = 3
	f := newFakeServer(t)
	calls := 0
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		if calls++; calls <= taken {
			return &strandlinev1.LeaseWriterResponse{}, nil
		}
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	f.keepWriter = func() error { return nil }
	began := time.Now()
	w, err := f.client(t).LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "twin", Lease: time.Minute})
	require.NoError(t, err)
	defer w.Close()
	require.GreaterOrEqual(t, time.Since(began), taken*100*time.Millisecond)
	require.Equal(t, taken+1, calls)
}

// A renewal that meets the effect of a handover before that is answered does not end the lease with
// an error.
func TestALeaseThatIsHandedOverEndsWithoutAnErrorWhateverARenewalFindsMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	begun, refused := make(chan struct{}), make(chan struct{}, 100)
	f.keepWriter = func() error {
		select {
		case <-begun:
			refused <- struct{}{}
			return refuse(record.Fenced)
		default:
			return nil
		}
	}
	var lease *client.WriterLease
	f.releaseWriter = func() error {
		close(begun)
		for range 2 { // after the second one the first was seen
			select {
			case <-refused:
			case <-lease.Done():
			}
		}
		return nil
	}
	var err error
	lease, err = f.client(t).LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "first", Lease: 300 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, lease.HandOver(t.Context(), "second"))
	<-lease.Done()
	require.NoError(t, lease.Err())
}

// The second of two handovers at once finds the effect of the first.
func TestALeaseEndsWithTheHandoverThatHasSucceededOfTwoAtOnce(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	f.keepWriter = func() error { return nil }
	begun, refused := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	f.releaseWriter = func() error {
		if calls.Add(1) > 1 {
			return refuse(record.Fenced)
		}
		close(begun)
		<-refused
		return nil
	}
	lease, err := f.client(t).LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "first", Lease: time.Hour})
	require.NoError(t, err)
	var handing sync.WaitGroup
	handing.Go(func() {
		if err := lease.HandOver(t.Context(), "second"); err != nil {
			t.Error(err)
		}
	})
	<-begun
	require.ErrorIs(t, lease.HandOver(t.Context(), "third"), client.ErrFenced)
	close(refused)
	handing.Wait()
	<-lease.Done()
	require.NoError(t, lease.Err())
}

// Whoever has a lease that it has not released may have lost it to a program of its own name: the two
// would take it from each other as fast as they can call.
func TestAProgramPausesBeforeItAsksForALeaseThatItHasHadAndNotReleased(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	f.keepWriter = func() error { return nil }
	fenced := false
	f.releaseWriter = func() error {
		if fenced {
			return refuse(record.Fenced)
		}
		return nil
	}
	c := f.client(t)
	lease := func(log, name string) (*client.WriterLease, time.Duration) {
		began := time.Now()
		w, err := c.LeaseWriter(t.Context(), log, client.WriterClaim{Name: name, Lease: time.Hour})
		require.NoError(t, err)
		t.Cleanup(w.Close)
		return w, time.Since(began)
	}
	const least = 100 * time.Millisecond
	w, _ := lease("orders", "twin")
	_, waited := lease("orders", "twin")
	require.GreaterOrEqual(t, waited, least)
	w.Close()
	fenced = true
	require.NoError(t, w.Release(t.Context()))
	w, waited = lease("orders", "twin")
	require.GreaterOrEqual(t, waited, least, "a release that found that the lease had ended")
	fenced = false
	require.NoError(t, w.Release(t.Context()))
	// Of many tries one is in time, however busy the machine is.
	for pauses := 0; ; pauses++ {
		require.Less(t, pauses, 10)
		w, waited = lease("orders", "twin")
		require.NoError(t, w.HandOver(t.Context(), "another"))
		if waited < least {
			return
		}
	}
}

// A node, or a proxy in front of it, may end each stream after its first state.
func TestAWatchThatEndsAtOnceIsOpenedAgainWithPauses(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	const opened = 8
	var opening atomic.Int32
	f.watchWriter = func(s grpc.ServerStreamingServer[strandlinev1.WatchWriterResponse]) error {
		opening.Add(1)
		return s.Send(&strandlinev1.WatchWriterResponse{State: &strandlinev1.WriterState{WriterTerm: uint64(opening.Load())}})
	}
	began := time.Now()
	for state, err := range f.client(t).Admin().WatchWriter(t.Context(), "orders", 0) {
		require.NoError(t, err)
		if state.Term == opened {
			break
		}
	}
	// At least half of 10, 20, 40, 80 and thrice 100 ms.
	require.GreaterOrEqual(t, time.Since(began), 225*time.Millisecond)
}

func TestAHandoverOfALeaseThatHadEndedSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	f.keepWriter = func() error { return nil }
	f.releaseWriter = func() error { return refuse(record.Fenced) }
	lease, err := f.client(t).LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "first", Lease: time.Hour})
	require.NoError(t, err)
	defer lease.Close()
	require.ErrorIs(t, lease.HandOver(t.Context(), "second"), client.ErrFenced)
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), client.ErrFenced)
}

func TestAProgramInLineLooksForTheNextLeaderForTheRetryTimeHoweverLongItHasWaited(t *testing.T) {
	t.Parallel()
	const retryTime = time.Second
	f := newFakeServer(t)
	calls := 0
	f.leaseWriter = func() (*strandlinev1.LeaseWriterResponse, error) {
		switch calls++; {
		case calls == 1:
			time.Sleep(retryTime + retryTime/10) // until the leader is lost
			return nil, refuse(record.NotLeader)
		case calls < 5:
			return nil, refuse(record.NotLeader)
		}
		return &strandlinev1.LeaseWriterResponse{WriterTerm: 7}, nil
	}
	f.keepWriter = func() error { return nil }
	c, err := client.Dial([]string{f.address}, client.WithRetryTime(retryTime))
	require.NoError(t, err)
	defer c.Close()
	w, err := c.LeaseWriter(t.Context(), "orders", client.WriterClaim{Name: "standby", Lease: time.Minute})
	require.NoError(t, err)
	defer w.Close()
	require.Equal(t, 5, calls)
}
