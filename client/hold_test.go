package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/embed"
	"strandline.dev/internal/record"
)

func embedded(t *testing.T) *client.Client {
	t.Helper()
	n, err := embed.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	c, err := n.Client()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	return c
}

func TestAHoldIsWhatItWasSetTo(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	set := client.HoldInfo{
		Name: "backup", Offset: client.HoldFromEnd, Owner: "ops", Lease: time.Hour, MaxBytes: 1 << 30, MaxAge: 48 * time.Hour, Pointer: []byte{0, 0xff},
	}
	offset, end, err := c.Admin().SetHold(t.Context(), "orders", set)
	require.NoError(t, err)
	require.Zero(t, offset)
	require.Zero(t, end)
	info, err := c.Admin().Info(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, info.Holds, 1)
	set.Offset, info.Holds[0].Kept = 0, 0
	require.Equal(t, []client.HoldInfo{set}, info.Holds)

	_, _, err = c.Admin().Trim(t.Context(), "orders", 5, true)
	require.ErrorIs(t, err, client.ErrHeld)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, &set, e.Hold)
	require.NoError(t, c.Admin().KeepHold(t.Context(), "orders", "backup"))
	require.NoError(t, c.Admin().ReleaseHold(t.Context(), "orders", "backup"))
	require.ErrorIs(t, c.Admin().KeepHold(t.Context(), "orders", "backup"), client.ErrHoldNotFound)
	require.ErrorIs(t, c.Admin().ReleaseHold(t.Context(), "orders", "backup"), client.ErrHoldNotFound)
}

// The least lease is a second: by the time that a second hold which nobody keeps has expired,
// the first has been renewed.
func TestAHoldWithALeaseIsKeptUntilItIsClosed(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	h, err := c.Hold(t.Context(), "orders", client.HoldInfo{Name: "kept", Lease: 3 * time.Second})
	require.NoError(t, err)
	gone := func(name string) {
		require.Eventually(t, func() bool {
			info, err := c.Admin().Info(t.Context(), "orders")
			for _, one := range info.Holds {
				if one.Name == name {
					return false
				}
			}
			return err == nil
		}, time.Minute, 10*time.Millisecond)
	}
	_, _, err = c.Admin().SetHold(t.Context(), "orders", client.HoldInfo{Name: "not kept", Lease: 3 * time.Second})
	require.NoError(t, err)
	gone("not kept")
	require.NoError(t, h.Err())
	h.Close()
	<-h.Done()
	require.NoError(t, h.Err())
	gone("kept")
	require.NoError(t, h.Release(t.Context()), "that it is gone is what was asked for")
}

func TestAHoldThatEndedSaysSo(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	h, err := c.Hold(t.Context(), "orders", client.HoldInfo{Name: "view", Lease: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, c.Admin().ReleaseHold(t.Context(), "orders", "view"))
	<-h.Done()
	require.ErrorIs(t, h.Err(), client.ErrHoldNotFound)
	require.ErrorIs(t, h.Move(t.Context(), 0, []byte("again")), client.ErrHoldNotFound, "nobody would renew its lease")
	h.Close()
	require.ErrorIs(t, h.Err(), client.ErrHoldNotFound)

	h, err = c.Hold(t.Context(), "orders", h.Info())
	require.NoError(t, err, "nothing was trimmed")
	require.NoError(t, h.Move(t.Context(), 0, []byte("again")))
	require.Equal(t, "again", string(h.Info().Pointer))
	h.Close()
	require.ErrorIs(t, h.Move(t.Context(), 0, nil), client.ErrClosed)
}

func (f *fakeServer) SetHold(_ context.Context, q *strandlinev1.SetHoldRequest) (*strandlinev1.SetHoldResponse, error) {
	if f.setHold != nil {
		f.setHold(q)
	}
	if f.sets.Add(1) > 1 {
		<-f.moves
	}
	return &strandlinev1.SetHoldResponse{}, nil
}

func (f *fakeServer) KeepHold(context.Context, *strandlinev1.KeepHoldRequest) (*strandlinev1.KeepHoldResponse, error) {
	if f.refuseKeep == 0 {
		if f.keptHold != nil {
			f.keptHold()
		}
		return &strandlinev1.KeepHoldResponse{}, nil
	}
	return nil, refuse(f.refuseKeep)
}

func TestAHoldThatMayNotBeRenewedHasEnded(t *testing.T) {
	t.Parallel()
	for reason, want := range map[record.Reason]*client.Error{
		record.Denied: client.ErrPermissionDenied, record.Unauthenticated: client.ErrUnauthenticated,
	} {
		f := newFakeServer(t)
		f.refuseKeep = reason
		h, err := dial(t, []*fakeServer{f}).Hold(t.Context(), "orders", client.HoldInfo{Name: "view", Lease: 600 * time.Millisecond})
		require.NoError(t, err)
		<-h.Done()
		require.ErrorIs(t, h.Err(), want)
		require.ErrorIs(t, h.Move(t.Context(), 0, nil), want)
		h.Close()
	}
}

func TestAMoveDuringWhichTheHoldEndsFails(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t)
	f.refuseKeep, f.moves = record.HoldNotFound, make(chan struct{})
	h, err := dial(t, []*fakeServer{f}).Hold(t.Context(), "orders", client.HoldInfo{Name: "view", Lease: 3 * time.Second})
	require.NoError(t, err)
	defer h.Close()
	go func() {
		<-h.Done()
		close(f.moves)
	}()
	require.ErrorIs(t, h.Move(t.Context(), 0, nil), client.ErrHoldNotFound)
}

// A log that was deleted and created again knows nothing of the hold.
func TestAHoldIsNotMovedToAnotherLogOfItsName(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	h, err := c.Hold(t.Context(), "orders", client.HoldInfo{Name: "view"})
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, c.Admin().DeleteLog(t.Context(), "orders"))
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, h.Move(t.Context(), 0, nil), client.ErrLogReplaced)
	require.ErrorIs(t, h.Release(t.Context()), client.ErrLogReplaced)
}
