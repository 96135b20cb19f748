package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

const (
	catalogID   = 0
	catalogName = "_catalog"

	// checkpointEvery is how many changes the catalog keeps before it is
	// written anew as a whole and trimmed, so that opening a node does not
	// take longer with its age.
	checkpointEvery = 1000

	// changeTimeout bounds a change of the catalog, which goes on when its
	// caller has left: half a change would be seen by nobody.
	changeTimeout = 30 * time.Second

	// changePause lies between two tries while the catalog has no leader.
	changePause = 50 * time.Millisecond
)

// catalog is the cluster's list of logs and nodes. Its truth is log 0: every
// record is one catalogChange in JSON, and the state is what the changes add up
// to. Changes are conditional appends, so two that were decided on the same
// state never both land. Any node can decide one; the leader of log 0 appends
// it.
type catalog struct {
	node *Node
	// hosting is this node's replica of log 0: another one after it was mended.
	hosting atomic.Pointer[hosted]
	// shown is the newest state that was folded. It is never changed.
	shown atomic.Pointer[catalogState]
	// current: since this process began, shown has been the newest state there
	// was. One that was kept by the process before may name replicas that have
	// been replaced since.
	current atomic.Bool

	missing missing

	// waiting are changes that nobody makes yet.
	waiting proposals
	// deciding holds one over a whole change: this node makes one at a time, or
	// one group of them.
	// Never mu: a change may have to wait for what is learned meanwhile, the
	// address of the leader first of all.
	deciding chan struct{}

	mu    sync.Mutex // guards what follows; held while records are folded
	state catalogState
	next  record.Offset // the first record not folded yet
	// awaited are the tries of the group that is being made that may be in the
	// log, or may yet get there; landed: one of them was folded.
	awaited []catalogTry
	landed  bool
	// missed: a checkpoint has taken the place of records not folded yet, and
	// does not tell whether one of the awaited was among them.
	missed bool
}

// catalogTry is an append to the catalog on condition that it ends at an offset.
type catalogTry struct {
	change string // the id of all its records
	at     record.Offset
}

func newCatalog(n *Node, host *hosted) *catalog {
	c := &catalog{node: n, state: cluster.NewState(), deciding: make(chan struct{}, 1)}
	c.hosting.Store(host)
	for _, seed := range n.me.Load().Seeds {
		c.state.Nodes[seed.ID] = seed
	}
	c.show()
	return c
}

// host has a replica that was started; it may have ended.
func (c *catalog) host() *hosted { return c.hosting.Load() }

func (c *catalog) show() {
	state := c.state.Clone()
	if before := c.shown.Swap(&state); before == nil || !maps.Equal(before.Nodes, state.Nodes) {
		c.node.due.ring()
	}
}

// change decides on the newest state and records what decide returns, nothing
// if that has no effect. It tries again when another change came first, and
// while the catalog has no leader. It outlives ctx: once proposed, a change is
// seen through.
func (c *catalog) change(ctx context.Context, decide decideFunc) error {
	return c.changeWithin(ctx, changeTimeout, decide)
}

// changeWithin is change that gives up after a time.
func (c *catalog) changeWithin(ctx context.Context, patience time.Duration, decide decideFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// But not this node.
	defer context.AfterFunc(c.node.deciding, cancel)()
	return c.record(ctx, decide)
}

// record makes a change together with all that wait for the same at that moment, in
// one append: each would be in the way of the others.
func (c *catalog) record(ctx context.Context, decide decideFunc) error {
	p := &proposal{ctx: ctx, decide: decide, done: make(chan struct{})}
	c.waiting.add(p)
	select {
	case c.deciding <- struct{}{}:
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if c.waiting.remove(p) {
			return noMajority()
		}
		<-p.done // whoever makes it gives up soon
		return p.err
	}
	defer func() { <-c.deciding }()
	for { // more than once if many more wait than are made together
		select {
		case <-p.done:
			return p.err
		default:
			c.recordAll(ctx, c.waiting.take())
		}
	}
}

// recordAll makes the changes of a group, and tells each its outcome. It gives up
// when the time of the first of them is up; those that have time left and of which
// nothing can have happened wait again.
func (c *catalog) recordAll(ctx context.Context, group []*proposal) {
	for _, p := range group {
		if deadline, bounded := p.ctx.Deadline(); bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
	}
	err := c.tryAll(ctx, group)
	if err == nil {
		c.node.rehost()
	}
	for _, p := range group {
		switch {
		case err == nil && p.refused != nil && !c.hasLanded():
			p.finish(c.givenUp(p.refused)) // a try before may have landed
		case err == nil:
			p.finish(p.refused)
		case p.ctx.Err() == nil && ctx.Err() != nil && errors.Is(err, &record.Refusal{Reason: record.Busy}):
			c.waiting.add(p)
		default:
			p.finish(err)
		}
	}
}

func (c *catalog) tryAll(ctx context.Context, group []*proposal) error {
	c.await()
	for {
		err := c.try(ctx, group)
		var r *record.Refusal
		var d decided
		switch {
		case err == nil:
			return nil
		case errors.As(err, &d):
			return c.givenUp(d.error)
		case c.host().problem() != nil: // it will not get better
			return c.givenUp(err)
		case ctx.Err() != nil:
			c.node.logger.Debug("gave up a change of the catalog", "error", err)
			return c.givenUp(noMajority())
		case errors.Is(err, errAgain) || errors.As(err, &r) && r.Reason == record.EndMismatch:
			continue
		case errors.As(err, &r) && !r.Reason.Retryable(), r == nil && !errors.Is(err, context.DeadlineExceeded):
			return c.givenUp(err)
		}
		pause(ctx, changePause)
	}
}

// noMajority refuses a change that no leader could be asked for. Nothing has
// happened.
func noMajority() *record.Refusal {
	return record.Refuse(record.Busy, "nothing was changed: the catalog has no majority of nodes at the moment, or its leader cannot be reached")
}

// givenUp is the error of a change that is not tried any more. Where a try before
// may have landed, why must not claim that nothing has happened.
func (c *catalog) givenUp(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, told := record.NotDone, record.NotDone
	if len(c.awaited) > 0 {
		known = record.MaybeDone
	}
	if r := new(record.Refusal); errors.As(why, &r) {
		told = r.Reason.Outcome()
	}
	if known.Then(told) == told {
		return why
	}
	return record.Refuse(record.OutcomeUnknown, "the catalog's majority or leader was lost on the way; the change may have happened, or may still: look before trying again")
}

// errAgain: the change did not land, and may be decided anew at once.
var errAgain = errors.New("the change did not land")

func (c *catalog) try(ctx context.Context, group []*proposal) error {
	if err := c.refresh(ctx); err != nil {
		return err
	}
	at, values, err := c.decide(group)
	if err != nil || len(values) == 0 {
		return err
	}
	proposed := c.propose(ctx, at, values)
	if r := new(record.Refusal); errors.As(proposed, &r) && r.Reason.Outcome() == record.NotDone {
		c.withdraw()
	}
	// Only the log itself tells whether a change has landed.
	if err := c.refresh(ctx); err != nil {
		return err
	}
	switch {
	case c.hasLanded():
		return nil
	case proposed == nil:
		return errAgain
	}
	return proposed
}

// decide returns the records to append, and where; none if there is nothing to
// change, or an earlier try has landed late. Each proposal is decided as if those
// before it had landed, which they do together or not at all.
func (c *catalog) decide(group []*proposal) (at record.Offset, values [][]byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.landed:
		return 0, nil, nil
	case c.missed:
		return 0, nil, decided{record.Refuse(record.OutcomeUnknown, "this node was too slow to see whether the change was made: look, and try again if it was not")}
	}
	// A try that was not among the records up to here cannot land any more.
	c.awaited = slices.DeleteFunc(c.awaited, func(t catalogTry) bool { return t.at < c.next })
	state, id := &c.state, rand.Text()
	if len(group) > 1 {
		scratch := c.state.Clone()
		state = &scratch
	}
	for i, p := range group {
		var change catalogChange
		if change, p.refused = p.decide(state); p.refused != nil || change.Empty() {
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
		c.awaited = append(c.awaited, catalogTry{change: id, at: c.next})
	}
	return c.next, values, nil
}

// await begins a change: none of its tries has been made.
func (c *catalog) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited, c.landed, c.missed = nil, false, false
}

// withdraw: the newest try was refused, so that it will never land.
func (c *catalog) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = c.awaited[:len(c.awaited)-1]
}

func (c *catalog) hasLanded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.landed
}

// decided is an error of decide, which is final.
type decided struct{ error }

// propose appends changes at the leader, if the catalog ends at an offset.
func (c *catalog) propose(ctx context.Context, end record.Offset, values [][]byte) error {
	s := c.host().replica.Status()
	if s.Leading {
		return c.appendAt(ctx, end, values)
	}
	node := c.node.nodeOf(c.host(), s.Leader)
	if node == 0 {
		return record.Refuse(record.NotLeader, "the catalog has no leader at the moment")
	}
	return c.node.call(ctx, node, askCatalogAppend, catalogAppend{End: end, Values: values}, nil)
}

// appendAt appends records to the catalog, here, if it ends at an offset: all or
// none.
func (c *catalog) appendAt(ctx context.Context, end record.Offset, values [][]byte) error {
	var b record.Builder
	b.Reset(nil)
	for _, value := range values {
		if err := b.Add(record.Record{Timestamp: c.node.now().UnixMilli(), Value: value}); err != nil {
			return err
		}
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return err
	}
	return c.host().appendAt(ctx, end, batch)
}

// refresh makes the state linearizable: it folds every record that is
// committed now, anywhere.
func (c *catalog) refresh(ctx context.Context) error {
	confirm, cancel := context.WithTimeout(ctx, changeTimeout/10)
	defer cancel()
	if err := c.host().confirm(confirm); err != nil {
		return err
	}
	if err := c.learn(ctx); err != nil {
		return err
	}
	if c.current.Load() {
		return nil
	}
	// In this order: a node that takes what it shows for current makes replicas
	// that are not in the list of those it made, and a list that was lost says
	// nothing before it is settled.
	if err := c.node.made.settle(c.shown.Load().NextReplica); err != nil {
		return err
	}
	c.current.Store(true)
	return nil
}

// learn folds what has become known here, without asking others.
func (c *catalog) learn(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		err := c.foldOnce(ctx)
		if !errors.Is(err, &record.Refusal{Reason: record.OffsetTrimmed}) {
			return err
		}
		// A checkpoint came between the look at the bounds and the read.
	}
}

func (c *catalog) foldOnce(ctx context.Context) error {
	h := c.host()
	start, end, err := h.replica.Tail().Bounds()
	if err != nil {
		return err
	}
	if c.next < start {
		c.next, c.missed = start, len(c.awaited) > 0 && !c.landed
	}
	if c.next >= end {
		return nil
	}
	reader := &Reader{host: h, next: c.next, until: end, internal: true, reader: h.replica.NewReader(c.next)}
	defer reader.Close()
	defer c.show() // what was folded, even if the rest cannot be read now
	for {
		chunk, err := reader.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		if err := c.fold(chunk); err != nil {
			return err
		}
		c.next = chunk.First + record.Offset(chunk.Count)
	}
}

func (c *catalog) fold(chunk Chunk) error {
	for r, err := range chunk.Records {
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		var change catalogChange
		if err := json.Unmarshal(r.Value, &change); err != nil {
			return fmt.Errorf("read change %d of the catalog: %w", r.Offset, err)
		}
		if err := c.state.Fold(change); err != nil {
			return fmt.Errorf("change %d of the catalog: %w", r.Offset, err)
		}
		c.landed = c.landed || slices.ContainsFunc(c.awaited, func(t catalogTry) bool { return t.change == change.ID })
	}
	return nil
}

// checkpoint writes the whole state as one change and trims those before, if
// this node leads the catalog and there are enough of them. It is the catalog's
// retention, and like that of other logs it is looked at every second by whoever
// leads: who decided the changes does not matter, and what failed is tried again.
func (c *catalog) checkpoint(ctx context.Context) error {
	start, _, err := c.host().replica.Tail().Bounds()
	if err != nil || !c.host().replica.Status().Leading {
		return err
	}
	c.mu.Lock()
	at := c.next
	if at-start < checkpointEvery {
		c.mu.Unlock()
		return nil
	}
	whole := c.state.Clone()
	c.mu.Unlock()
	value, err := json.Marshal(catalogChange{ID: rand.Text(), Checkpoint: &whole})
	if err != nil {
		return fmt.Errorf("encode a checkpoint: %w", err)
	}
	err = c.appendAt(ctx, at, [][]byte{value})
	if errors.Is(err, &record.Refusal{Reason: record.EndMismatch}) {
		return nil // a change came first; the next look finds it
	}
	if err != nil {
		return err
	}
	_, err = c.host().command(ctx, record.Command{Kind: record.Trim, Offset: at})
	return err
}

// reserveSessions takes count session ids for this node. It gives up after a time.
func (c *catalog) reserveSessions(ctx context.Context, count record.SessionID, patience time.Duration) (first record.SessionID, err error) {
	err = c.changeWithin(ctx, patience, func(s *catalogState) (catalogChange, error) {
		first = s.NextSession
		return catalogChange{Sessions: first + count}, nil
	})
	return first, err
}

// appendAt appends one batch if the log ends at an offset.
func (h *hosted) appendAt(ctx context.Context, end record.Offset, batch record.Batch) error {
	a := &sequence.Append{
		ExpectedEnd: end, Batches: []record.Batch{batch}, Records: batch.Count(), Bytes: len(batch),
	}
	_, err := h.await(ctx, func(done func(sequence.Answer)) { h.append(a, done) })
	return err
}

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
