package node

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// How fresh a read is on a replica that may lag. The age of what a replica
// knows is the time on its own clock since it sent the newest question to the
// leader whose answer it has applied: whatever was committed before that moment
// is known here. While somebody reads, it asks again with every tick.

// minMaxAge is the least bound that asking once a tick can keep.
const minMaxAge = 2 * core.TickMillis * time.Millisecond

// makeSure waits until this replica knows what the read asks for.
func (h *hosted) makeSure(ctx context.Context, q *ReadRequest) error {
	switch q.Consistency {
	case ConsistencyLinearizable:
		return h.confirm(ctx)
	case ConsistencyAtLeast:
		return h.awaitEnd(ctx, q.AtLeast)
	case ConsistencyBounded:
		if q.MaxAge < minMaxAge {
			return record.Refuse(record.Invalid, "a bound of %v is below the least that can be kept, %v", q.MaxAge, minMaxAge)
		}
		if h.age() <= q.MaxAge {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, q.MaxAge)
		defer cancel()
		if err := h.confirm(limited); err != nil && ctx.Err() == nil {
			return h.stale(q.MaxAge)
		}
		return ctx.Err()
	}
	return nil
}

// fresh refuses a read whose bound is not kept any more.
func (h *hosted) fresh(q *ReadRequest) error {
	if q.Consistency == ConsistencyBounded && h.age() > q.MaxAge {
		return h.stale(q.MaxAge)
	}
	return nil
}

func (h *hosted) stale(bound time.Duration) *record.Refusal {
	return record.Refuse(record.Stale,
		"this replica has not heard from the leader of log %q within %v; read from another one, or allow more", h.name, bound)
}

// tooOld is readable when a read that waits at the tail had better look at its
// bound.
func (r *Reader) tooOld() <-chan time.Time {
	if r.request.Consistency != ConsistencyBounded {
		return nil
	}
	return time.After(r.request.MaxAge / 2)
}

// awaitEnd waits until the end known here has reached an offset.
func (h *hosted) awaitEnd(ctx context.Context, offset record.Offset) error {
	for {
		start, end, err := h.replica.Tail().Bounds()
		if err != nil || end >= offset {
			return err
		}
		changed := h.replica.Tail().Changed(start, end)
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return record.Refuse(record.Stale, "this replica knows log %q up to offset %d, not %d yet", h.name, end, offset)
			}
			return ctx.Err()
		}
	}
}

// age is how old the knowledge of this replica may be.
func (h *hosted) age() time.Duration {
	s := h.replica.Status()
	switch {
	case s.SoleVoter && s.Leading:
		return 0
	case s.Known == 0:
		return UnknownAge
	}
	return time.Duration(h.replica.Monotonic()-s.Known) * time.Millisecond
}

// refreshAge asks the leader, if somebody reads and no question is under way.
func (h *hosted) refreshAge() {
	if h.readers.Load() == 0 || h.replica.Status().SoleVoter || h.asking.Swap(true) {
		return
	}
	answered := func(*record.Refusal) { h.asking.Store(false) }
	if r := h.replica.Do(func(c *core.Core) { c.Confirm(answered) }); r != nil {
		answered(nil)
	}
}
