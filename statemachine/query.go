package statemachine

import (
	"context"
	"errors"
	"time"
)

// Freshness says what a query must see. Queries with Linearizable see everything that had been
// acknowledged, to any client, when they began.
type Freshness struct {
	kind   freshness
	next   int64
	maxAge time.Duration
}

type freshness uint8

const (
	linearizable freshness = iota
	asApplied
	atLeast
	bounded
)

var (
	// Linearizable asks the leader of the log for its end, once for all queries that wait at a time, and
	// waits until the records below it are applied.
	Linearizable = Freshness{kind: linearizable}
	// AsApplied uses the state as it is, without waiting: it needs no node. It has the proposals of this replica
	// that have returned.
	AsApplied = Freshness{kind: asApplied}
)

// AtLeast waits until the records below an offset are applied. With the Offset of a proposal plus one, a
// program reads what it has written, on any replica.
func AtLeast(next int64) Freshness { return Freshness{kind: atLeast, next: next} }

// MaxAge uses the state as it is if a linearizable query could have seen it at most d ago, by the clock of this
// process, and otherwise is Linearizable.
func MaxAge(d time.Duration) Freshness { return Freshness{kind: bounded, maxAge: d} }

// Query calls f once the state is as fresh as wanted. f reads the machine, and must not change it; no record is
// applied meanwhile. The error is that of ctx, of the log if its end cannot be confirmed, or ErrStopped; then
// f was not called.
func (r *Replica[R]) Query(ctx context.Context, fresh Freshness, f func()) error {
	if err := r.await(ctx, fresh); err != nil {
		return err
	}
	return r.look(ctx, f)
}

// look calls f while nothing is applied, unless the replica has ended: perhaps in the middle of a record. While the
// state is replaced it waits.
func (r *Replica[R]) look(ctx context.Context, f func()) error {
	for {
		replaced, err := r.tryLook(f)
		if err != nil || replaced == nil {
			return err
		}
		select {
		case <-replaced:
		case <-r.done:
		case <-ctx.Done():
			return &Error{log: r.log, reason: ctx.Err(), cause: errors.New("the state is being replaced by a snapshot")}
		}
	}
}

// tryLook calls f, or returns what is closed when the state has been replaced.
func (r *Replica[R]) tryLook(f func()) (replaced <-chan struct{}, err error) {
	r.state.RLock()
	defer r.state.RUnlock()
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return nil, r.stopped()
	}
	r.mu.Unlock()
	if r.replacing != nil {
		return r.replacing, nil
	}
	f()
	return nil, nil
}

// await waits until the state is as fresh as wanted.
func (r *Replica[R]) await(ctx context.Context, fresh Freshness) error {
	switch fresh.kind {
	case asApplied:
		return r.reach(ctx, 0)
	case atLeast:
		return r.reach(ctx, fresh.next)
	case bounded:
		if now := time.Now(); now.Sub(r.freshAt()) <= fresh.maxAge {
			return r.reach(ctx, 0)
		}
	}
	asked := time.Now()
	end, err := r.client.End(ctx, r.log)
	if err != nil {
		return err
	}
	if err := r.reach(ctx, end); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = max(r.end, end)
	if asked.After(r.fresh) {
		r.fresh = asked
	}
	return nil
}

func (r *Replica[R]) freshAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh
}
