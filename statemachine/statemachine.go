// Package statemachine keeps a program's state in a log: every replica applies the same records in the
// same order, and so has the same state.
//
//	type counters map[string]int
//
//	func (c counters) Apply(r client.Record) (int, error) { c[string(r.Key)]++; return c[string(r.Key)], nil }
//	func (c counters) Snapshot() (io.WriterTo, error)     { ... }
//	func (c counters) Restore(r io.Reader) error          { ... }
//
//	r, err := statemachine.Open(ctx, c, "counters", state,
//		statemachine.WithSnapshots(statemachine.Files("snapshots")), statemachine.WithHold(client.HoldInfo{Name: "counters-" + host}))
//	applied, err := r.Propose(ctx, client.Record{Key: []byte("visits")})
//	err = r.Query(ctx, statemachine.Linearizable, func() { n = state["visits"] })
//
// docs/state-machine.md has a guide. The decisions are in internal/rules.
package statemachine

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
	"time"

	"strandline.dev/client"
	"strandline.dev/statemachine/internal/rules"
)

// Machine is the state of a program. Apply and Restore change it: a Replica calls them one at a time,
// and never during Snapshot or the function of a query, which may run at the same time as others.
type Machine[R any] interface {
	// Apply applies a record, and returns what Propose returns for it. The new state and the result
	// must depend on nothing but the record and the state before: not on the time, on random numbers
	// or on the order of a map. The record's memory belongs to the caller again when Apply returns. An
	// error ends the replica; a record that the program refuses is a result.
	Apply(r client.Record) (R, error)
	// Snapshot returns the state as of now. It is written later, while Apply is called again, so it must
	// not change then: a copy, or the encoded state in a bytes.Buffer.
	Snapshot() (io.WriterTo, error)
	// Restore replaces the state by what a snapshot has written. It may be called with damaged bytes,
	// for which it has to return, and is then called again or not at all.
	Restore(r io.Reader) error
}

// Digester is a Machine that has a digest of its state, by which replicas notice that they have
// diverged: see WithDigests.
type Digester interface {
	// Digest returns a digest of the state, of at most 64 bytes: the same for equal states, whether they
	// come from records or from a snapshot, and different for others. It is called like Snapshot.
	Digest() []byte
}

// Replica is one copy of a state, which follows its log. It is safe for concurrent use. A Replica that
// cannot continue stops: see Done and Err.
type Replica[R any] struct {
	client  *client.Client
	log     string
	logID   uint64
	machine Machine[R]
	options options

	// state is held to change the machine and next, unless replacing is set.
	state sync.RWMutex
	// replacing is set, under state, while a snapshot replaces the state; closed after it. That may last as long as
	// no snapshot can be read, and a query does not wait for a lock so long.
	replacing chan struct{}

	mu       sync.Mutex // guards what follows; taken after state
	next     int64      // the records below it are applied
	end      int64      // of the log, as last known
	results  *rules.Results[R]
	waiting  rules.Waiting[chan struct{}]
	fresh    time.Time // when the state was known to be that of the end of the log
	err      error     // why the replica has ended
	producer *client.Producer
	counts   counts

	opening chan struct{} // has room for one: a producer is opened

	// The following fields belong to the goroutine that applies records, and before it starts to Open.
	digests *rules.Digests
	live    bool // the end of the log as of Open has been reached
	scratch []R

	troubling sync.Mutex // one call of Hooks.Trouble at a time

	snapshots *snapshots[R] // nil: none are taken
	reports   chan report

	life    context.Context
	stop    context.CancelFunc
	booted  chan struct{} // closed when the boot has ended
	done    chan struct{}
	working sync.WaitGroup
}

// Open boots a replica of the state in an existing log: it restores the newest snapshot, if there are
// any, applies the records behind it, and returns when everything is applied that had been
// acknowledged before the call. machine is empty, unless WithState is given, and belongs to the
// replica until Close. ctx bounds only the boot. The error is ErrNoSnapshot if the records that are
// left do not reach back to a state, ErrAhead if a state contains more than the log, and ErrHoldOfAnother if the
// hold is that of another directory.
func Open[R any](ctx context.Context, c *client.Client, log string, machine Machine[R], opts ...Option) (*Replica[R], error) {
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.name == "" {
		o.name = rand.Text()
	}
	if _, digests := machine.(Digester); !digests {
		o.digests = 0
	}
	r := &Replica[R]{
		client: c, log: log, machine: machine, options: o, next: rules.NoState,
		results: rules.NewResults[R](maxResults), digests: rules.NewDigests(o.digests, o.name),
		reports: make(chan report, 1), opening: make(chan struct{}, 1), booted: make(chan struct{}), done: make(chan struct{}),
		counts: counts{snapshot: -1, snapshotAt: time.Now()},
	}
	if o.state != nil {
		r.logID, r.next = o.state.log, o.state.next
	}
	r.life, r.stop = context.WithCancel(context.Background())
	if err := r.start(ctx); err != nil {
		r.halt(err)
		r.working.Wait()
		if r.snapshots != nil {
			r.snapshots.leaveHold()
		}
		return nil, err
	}
	return r, nil
}

// start boots the replica and starts its goroutines.
func (r *Replica[R]) start(ctx context.Context) error {
	if r.options.directory != nil {
		r.snapshots = newSnapshots(r)
	}
	end, err := r.boot(ctx, r.snapshots)
	if err != nil {
		return err
	}
	r.working.Go(func() { r.follow(end) })
	select {
	case <-r.booted:
	case <-r.done:
		return r.Err()
	case <-ctx.Done():
		return &Error{log: r.log, reason: ctx.Err(), cause: fmt.Errorf("the state is at offset %[2]d, waiting for %[1]d at boot", end, r.Offset())}
	}
	if r.snapshots != nil && r.options.schedule != (rules.Schedule{}) {
		r.working.Go(r.snapshots.run)
	}
	r.working.Go(r.sendReports)
	return nil
}

// Offset returns the offset up to which records are applied: the state contains all those below it.
func (r *Replica[R]) Offset() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// LogID returns the id of the log. An offset means nothing in another log with the same name.
func (r *Replica[R]) LogID() uint64 { return r.logID }

// Done returns a channel that is closed when the replica has stopped, or has been closed. The state
// does not change any more.
func (r *Replica[R]) Done() <-chan struct{} { return r.done }

// Err returns why the replica has stopped: ErrDiverged, an error of Apply, or one of the log that will not
// pass. It is nil before, and client.ErrClosed after Close.
func (r *Replica[R]) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close stops the replica, and closes its session in the log. A snapshot that is being written is given up.
// Proposals in flight fail. The hold stays as it is: a lease, if it has one, is no longer renewed.
func (r *Replica[R]) Close(ctx context.Context) error {
	r.halt(client.ErrClosed) // and no proposal opens a producer from then on
	r.mu.Lock()
	p := r.producer
	r.producer = nil
	r.mu.Unlock()
	r.working.Wait()
	if p == nil {
		return nil
	}
	return p.Close(ctx)
}

// halt ends the replica. The first reason stays.
func (r *Replica[R]) halt(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.haltLocked(err)
}

func (r *Replica[R]) haltLocked(err error) {
	if r.err == nil {
		r.err = err
		r.stop()
		close(r.done)
	}
}

// reach waits until the records below next are applied.
func (r *Replica[R]) reach(ctx context.Context, next int64) error {
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return r.stopped()
	}
	if r.next >= next {
		r.mu.Unlock()
		return nil
	}
	wake := make(chan struct{})
	waiter := r.waiting.Add(next, wake)
	r.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
	case <-r.done:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next >= next {
		return nil
	}
	r.waiting.Remove(waiter)
	if r.err != nil {
		return r.stopped()
	}
	return &Error{log: r.log, reason: ctx.Err(), cause: fmt.Errorf("the state is at offset %d, waiting for %d", r.next, next)}
}

// stopped returns the error of a call of a replica that has ended. The mutex is held.
func (r *Replica[R]) stopped() error { return &Error{log: r.log, reason: ErrStopped, cause: r.err} }

// applied publishes that records below next are applied. The mutex is held.
func (r *Replica[R]) applied(next int64) {
	r.next = next
	for w := r.waiting.Reached(next); w != nil; w = r.waiting.Reached(next) {
		close(w.Wake)
	}
}
