package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/record"
)

// changes makes the changes of the catalog that this node decides.
type changes struct {
	logger  *slog.Logger
	catalog *catalog
	now     func() time.Time
	// outdated refuses a state of a feature level that this node does not understand yet.
	outdated func(*cluster.State) *record.Refusal
	// nodeOf is where a replica of the catalog is, or 0; ask asks a node for an append
	// to it; and shown is called when a change has been folded.
	nodeOf   func(h *hosted, replica uint64) uint64
	ask      func(ctx context.Context, node uint64, q catalogAppend) error
	shown    func()
	stopping context.Context // ends with Node.StopDeciding

	// waiting are changes that nobody makes yet.
	waiting proposals
	// turn holds one over a whole change: this node makes one at a time, or
	// one group of them.
	// Never catalog.mu: a change may have to wait for what is learned meanwhile, the
	// address of the leader first of all.
	turn chan struct{}
}

// catalogAppend is changes on their way to the catalog's leader.
type catalogAppend struct {
	End    record.Offset `json:"end"`
	Values [][]byte      `json:"values"`
}

// change decides on the newest state and records what decide returns, nothing
// if that has no effect. It tries again when another change came first, and
// while the catalog has no leader. It outlives ctx: once proposed, a change is
// seen through.
func (ch *changes) change(ctx context.Context, decide decideFunc) error {
	return ch.changeWithin(ctx, changeTimeout, decide)
}

// changeWithin is change that gives up after a time.
func (ch *changes) changeWithin(ctx context.Context, patience time.Duration, decide decideFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// But not this node.
	defer context.AfterFunc(ch.stopping, cancel)()
	return ch.record(ctx, decide)
}

// record makes a change together with all that wait for the same at that moment, in
// one append: each would be in the way of the others.
func (ch *changes) record(ctx context.Context, decide decideFunc) error {
	p := &proposal{ctx: ctx, decide: decide, done: make(chan struct{})}
	ch.waiting.add(p)
	select {
	case ch.turn <- struct{}{}:
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if ch.waiting.remove(p) {
			return noMajority()
		}
		<-p.done // whoever makes it gives up soon
		return p.err
	}
	defer func() { <-ch.turn }()
	for { // more than once if many more wait than are made together
		select {
		case <-p.done:
			return p.err
		default:
			ch.recordAll(ctx, ch.waiting.take())
		}
	}
}

// recordAll makes the changes of a group, and gives each its outcome. It gives up
// when the time of the first of them is up; those that have time left and of which
// nothing can have happened wait again.
func (ch *changes) recordAll(ctx context.Context, group []*proposal) {
	for _, p := range group {
		if deadline, bounded := p.ctx.Deadline(); bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
	}
	err := ch.tryAll(ctx, group)
	if err == nil {
		ch.shown()
	}
	for _, p := range group {
		switch {
		case err == nil && p.refused != nil && !ch.hasLanded():
			p.finish(ch.givenUp(p.refused)) // a try before may have landed
		case err == nil:
			p.finish(p.refused)
		case p.ctx.Err() == nil && ctx.Err() != nil && errors.Is(err, &record.Refusal{Reason: record.Busy}):
			ch.waiting.add(p)
		default:
			p.finish(err)
		}
	}
}

func (ch *changes) tryAll(ctx context.Context, group []*proposal) error {
	ch.await()
	for {
		err := ch.try(ctx, group)
		var r *record.Refusal
		var d decided
		switch {
		case err == nil:
			return nil
		case errors.As(err, &d):
			return ch.givenUp(d.error)
		case ch.catalog.host().problem() != nil: // it will not get better
			return ch.givenUp(err)
		case ctx.Err() != nil:
			ch.logger.Debug("gave up a change of the catalog", "error", err)
			return ch.givenUp(noMajority())
		case errors.Is(err, errAgain) || errors.As(err, &r) && r.Reason == record.EndMismatch:
			continue
		case errors.As(err, &r) && !r.Reason.Retryable(), r == nil && !errors.Is(err, context.DeadlineExceeded):
			return ch.givenUp(err)
		}
		background.Pause(ctx, changePause)
	}
}

// givenUp is the error of a change that is not tried any more. Where a try before
// may have landed, why must not claim that nothing has happened.
func (ch *changes) givenUp(why error) error {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	known, said := record.NotDone, record.NotDone
	if len(ch.catalog.awaited) > 0 {
		known = record.MaybeDone
	}
	if r := new(record.Refusal); errors.As(why, &r) {
		said = r.Reason.Outcome()
	}
	if known.Then(said) == said {
		return why
	}
	return record.Refuse(record.OutcomeUnknown, "the catalog's majority or leader was lost on the way; the change may have happened, or may still: look before trying again")
}

func (ch *changes) try(ctx context.Context, group []*proposal) error {
	if err := ch.catalog.refresh(ctx); err != nil {
		return err
	}
	at, values, err := ch.decide(group)
	if err != nil || len(values) == 0 {
		return err
	}
	proposed := ch.propose(ctx, at, values)
	if r := new(record.Refusal); errors.As(proposed, &r) && r.Reason.Outcome() == record.NotDone {
		ch.withdraw()
	}
	// Only the log itself shows whether a change has landed.
	if err := ch.catalog.refresh(ctx); err != nil {
		return err
	}
	switch {
	case ch.hasLanded():
		return nil
	case proposed == nil:
		return errAgain
	}
	return proposed
}

// decide returns the records to append, and where; none if there is nothing to
// change, or an earlier try has landed late. Each proposal is decided as if those
// before it had landed, which they do together or not at all.
func (ch *changes) decide(group []*proposal) (at record.Offset, values [][]byte, err error) {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	switch {
	case ch.catalog.landed:
		return 0, nil, nil
	case ch.catalog.missed:
		return 0, nil, decided{record.Refuse(record.OutcomeUnknown, "this node was too slow to see whether the change was made: look, and try again if it was not")}
	}
	// A try that was not among the records up to here cannot land any more.
	ch.catalog.awaited = slices.DeleteFunc(ch.catalog.awaited, func(t catalogTry) bool { return t.at < ch.catalog.next })
	state, id := &ch.catalog.state, rand.Text()
	if len(group) > 1 {
		scratch := ch.catalog.state.Clone()
		state = &scratch
	}
	for i, p := range group {
		var change cluster.Change
		if change, p.refused = p.decide(state); p.refused == nil {
			change, p.refused = refusable(change, cluster.Allow(state, change))
		}
		if p.refused != nil || change.Empty() {
			continue
		}
		change.ID = id
		value, err := json.Marshal(change)
		if err != nil {
			return 0, nil, fmt.Errorf("encode change: %w", err)
		}
		values = append(values, value)
		if i < len(group)-1 {
			if err := state.Fold(change); err != nil {
				return 0, nil, fmt.Errorf("decide a change: %w", err)
			}
		}
	}
	if len(values) > 0 {
		ch.catalog.awaited = append(ch.catalog.awaited, catalogTry{change: id, at: ch.catalog.next})
	}
	return ch.catalog.next, values, nil
}

// await begins a change: none of its tries has been made.
func (ch *changes) await() {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	ch.catalog.awaited, ch.catalog.landed, ch.catalog.missed = nil, false, false
}

// withdraw: the newest try was refused, so that it will never land.
func (ch *changes) withdraw() {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	ch.catalog.awaited = ch.catalog.awaited[:len(ch.catalog.awaited)-1]
}

func (ch *changes) hasLanded() bool {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	return ch.catalog.landed
}

// propose appends changes at the leader, if the catalog ends at an offset.
func (ch *changes) propose(ctx context.Context, end record.Offset, values [][]byte) error {
	s := ch.catalog.host().replica.Status()
	if s.Leading {
		return ch.appendAt(ctx, end, values)
	}
	node := ch.nodeOf(ch.catalog.host(), s.Leader)
	if node == 0 {
		return record.Refuse(record.NotLeader, "the catalog has no leader at the moment")
	}
	return ch.ask(ctx, node, catalogAppend{End: end, Values: values})
}

// appendAt appends records to the catalog, here, if it ends at an offset: all or
// none.
func (ch *changes) appendAt(ctx context.Context, end record.Offset, values [][]byte) error {
	var b record.Builder
	b.Reset(nil)
	for _, value := range values {
		if err := b.Add(record.Record{Timestamp: ch.now().UnixMilli(), Value: value}); err != nil {
			return err
		}
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return err
	}
	return ch.catalog.host().appendAt(ctx, end, batch)
}

// catalogTry is an append to the catalog on condition that it ends at an offset.
type catalogTry struct {
	change string // the id of all its records
	at     record.Offset
}

// noMajority refuses a change that no leader could be asked for. Nothing has
// happened.
func noMajority() *record.Refusal {
	return record.Refuse(record.Busy, "nothing was changed: the catalog has no majority of nodes at the moment, or its leader cannot be reached")
}

// errAgain: the change did not land, and may be decided anew at once.
var errAgain = errors.New("the change did not land")

// decided is an error of decide, which is final.
type decided struct{ error }
