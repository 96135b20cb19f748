package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// HoldInfo describes a hold. As long as it exists, the records of its log from Offset on are not
// trimmed.
type HoldInfo struct {
	// Name identifies the hold within its log: 1 to 128 bytes of text.
	Name string
	// Offset is the oldest offset that is kept. For SetHold it may be HoldFromStart or HoldFromEnd.
	Offset int64
	// Owner is for people: whom to ask before the hold is released. At most 256 bytes.
	Owner string
	// Lease is how long the hold lasts without being set or kept, 1 s to 30 days; 0: until it is
	// released.
	Lease time.Duration
	// MaxBytes and MaxAge bound what the hold keeps: once the records from Offset on take more
	// bytes, or the oldest of them is older, the log's leader breaks the hold. 0: no bound.
	MaxBytes int64
	MaxAge   time.Duration
	// Pointer is the location of the state derived from the records below Offset, for readers that
	// come too late: up to 4 KiB that the log does not interpret.
	Pointer []byte
	// Kept is the size in bytes of the records from Offset on, on the node that answered Info.
	Kept int64
	// Principal is the principal that last set or moved the hold, such as user/alice. Info sets it.
	// It is empty if the caller may not set holds of the log, or if it is not known, for example
	// because rights are not enforced.
	Principal string
}

// Offsets of a hold that is set at the current start or end of its log.
const (
	HoldFromStart int64 = -1
	HoldFromEnd   int64 = -2
)

// SetHold sets a hold, or replaces the one with the same name, and returns its offset and the end
// of the log. It fails with ErrOffsetTrimmed if records from the offset on are trimmed: if it
// succeeds, all of them exist.
func (a *Admin) SetHold(ctx context.Context, log string, h HoldInfo) (offset, end int64, err error) {
	set, err := holds{a, log, 0}.set(ctx, h)
	return set.GetOffset(), set.GetEndOffset(), err
}

// KeepHold renews a hold's lease, as SetHold does. The error is ErrHoldNotFound if the hold has
// expired, or was released or broken.
func (a *Admin) KeepHold(ctx context.Context, log, name string) error {
	return holds{a, log, 0}.keep(ctx, name)
}

// ReleaseHold releases a hold, no matter which client has set it.
func (a *Admin) ReleaseHold(ctx context.Context, log, name string) error {
	return holds{a, log, 0}.release(ctx, name)
}

// holds are the holds of the log with an id; 0: of whichever log has the name.
type holds struct {
	admin *Admin
	log   string
	id    uint64
}

func (a holds) set(ctx context.Context, h HoldInfo) (set *strandlinev1.SetHoldResponse, err error) {
	request := &strandlinev1.SetHoldRequest{Log: a.log, LogId: a.id, Hold: h.toWire()}
	switch h.Offset {
	case HoldFromStart:
		request.Position = strandlinev1.ReadPosition_READ_POSITION_START.Enum()
	case HoldFromEnd:
		request.Position = strandlinev1.ReadPosition_READ_POSITION_TAIL.Enum()
	}
	err = a.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) (err error) {
		set, err = logs.SetHold(ctx, request)
		return err
	})
	return set, err
}

func (a holds) keep(ctx context.Context, name string) error {
	return a.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) error {
		_, err := logs.KeepHold(ctx, &strandlinev1.KeepHoldRequest{Log: a.log, LogId: a.id, Name: name})
		return err
	})
}

func (a holds) release(ctx context.Context, name string) error {
	err := a.call(ctx, func(ctx context.Context, logs strandlinev1.LogServiceClient) error {
		_, err := logs.ReleaseHold(ctx, &strandlinev1.ReleaseHoldRequest{Log: a.log, LogId: a.id, Name: name})
		return err
	})
	if landed(err, ErrHoldNotFound) {
		return nil
	}
	return err
}

func (a holds) call(ctx context.Context, do func(context.Context, strandlinev1.LogServiceClient) error) error {
	return a.admin.call(ctx, a.log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, strandlinev1.NewLogServiceClient(conn))
	})
}

// Hold is a hold that this program has set and, if it has a lease, renews. Its methods are safe
// for concurrent use.
type Hold struct {
	holds holds

	turn sync.Mutex // one Move at a time
	mu   sync.Mutex
	info HoldInfo
	err  error // reason why done is closed

	done    chan struct{}
	stop    context.CancelFunc
	keeping sync.WaitGroup
}

// Hold sets a hold and, if it has a lease, renews it until Release or Close. After the program
// ends, the hold lasts no longer than the lease.
func (c *Client) Hold(ctx context.Context, log string, info HoldInfo) (*Hold, error) {
	of := holds{c.opener(log), log, 0}
	set, err := of.set(ctx, info)
	if err != nil {
		return nil, err
	}
	info.Offset = set.GetOffset()
	of.id = set.GetLogId()
	h := &Hold{holds: of, info: info, done: make(chan struct{})}
	renewing, stop := context.WithCancel(context.Background())
	if h.stop = stop; info.Lease > 0 {
		h.keeping.Go(func() { h.keep(renewing, holds{c.keeper(log, info.Lease), log, of.id}) })
	}
	return h, nil
}

// Info returns the hold as it was last set or moved.
func (h *Hold) Info() HoldInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.info
}

// Move sets the offset and pointer of the hold, in one step: records below offset may then be
// trimmed. Once Done is closed the lease is no longer renewed, and Move fails with Err, or with
// ErrClosed after Release and Close. Client.Hold with Info sets such a hold again if the records
// from its offset on still exist, and fails with ErrOffsetTrimmed otherwise.
func (h *Hold) Move(ctx context.Context, offset int64, pointer []byte) error {
	h.turn.Lock()
	defer h.turn.Unlock()
	info := h.Info()
	if err := h.ended(); err != nil {
		return err
	}
	info.Offset, info.Pointer = offset, pointer
	set, err := h.holds.set(ctx, info)
	if err == nil {
		err = h.ended() // the hold just set would expire
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	info.Offset = set.GetOffset()
	h.info = info
	return nil
}

// Done returns a channel that is closed once the hold is known to have ended, and after Release
// and Close.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Err returns why Done is closed: ErrHoldNotFound if the hold has expired, or was broken or
// released by others; ErrPermissionDenied or ErrUnauthenticated if this program may no longer
// renew it, so that it ends with its lease. It returns nil before, and after Release and Close.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Release releases the hold. If it fails, it may be called again; the lease is no longer renewed.
func (h *Hold) Release(ctx context.Context) error {
	h.Close()
	err := h.holds.release(ctx, h.Info().Name)
	if errors.Is(err, ErrHoldNotFound) {
		return nil
	}
	return err
}

// Close stops renewing the lease and leaves the hold as it is: it ends with its lease, if it has
// one.
func (h *Hold) Close() {
	h.stop()
	h.keeping.Wait()
	h.end(nil)
}

// ended returns why the hold is no longer kept, or nil.
func (h *Hold) ended() error {
	select {
	case <-h.done:
	default:
		return nil
	}
	if err := h.Err(); err != nil {
		return err
	}
	return closed("the hold")
}

func (h *Hold) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.done:
	default:
		h.err = err
		close(h.done)
	}
}

// keep renews the lease until ctx is done or there is nothing to renew.
func (h *Hold) keep(ctx context.Context, of holds) {
	lease := h.Info().Lease
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// There must be time to give up a silent node and to find the next leader, which starts the
		// lease again.
		limited, cancel := context.WithTimeout(ctx, lease)
		err := of.keep(limited, h.Info().Name)
		cancel()
		for _, ended := range []*Error{ErrHoldNotFound, ErrLogNotFound, ErrLogReplaced, ErrPermissionDenied, ErrUnauthenticated, ErrClosed} {
			if errors.Is(err, ended) {
				h.end(err)
				return
			}
		}
	}
}

func (h HoldInfo) toWire() *strandlinev1.Hold {
	w := &strandlinev1.Hold{Name: h.Name, Offset: h.Offset, Owner: h.Owner, MaxBytes: h.MaxBytes, Pointer: h.Pointer}
	if h.Lease != 0 {
		w.Lease = durationpb.New(h.Lease)
	}
	if h.MaxAge != 0 {
		w.MaxAge = durationpb.New(h.MaxAge)
	}
	return w
}

func fromHold(w *strandlinev1.Hold) HoldInfo {
	return HoldInfo{
		Name: w.GetName(), Offset: w.GetOffset(), Owner: w.GetOwner(), Lease: w.GetLease().AsDuration(),
		MaxBytes: w.GetMaxBytes(), MaxAge: w.GetMaxAge().AsDuration(), Pointer: w.GetPointer(), Kept: w.GetKeptBytes(),
		Principal: w.GetPrincipal(),
	}
}
