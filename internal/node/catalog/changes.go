package catalog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/record"
)

// Options are the functions with which a catalog reaches other nodes and reports changes.
type Options struct {
	Logger *slog.Logger
	Now    func() time.Time
	// TopicID returns the id of the topic whose partition 0 is a log.
	TopicID func(log uint64) cluster.TopicID
	// Outdated refuses a state of a feature level that this node does not understand yet.
	Outdated func(*cluster.State) *record.Refusal
	// NodeOf returns the node of a replica of the catalog, or 0. Ask asks a node to append to the
	// catalog. Shown is called after a change was folded.
	NodeOf func(h *hosted.Log, replica uint64) uint64
	Ask    func(ctx context.Context, node uint64, q CatalogAppend) error
	Shown  func()
	// Majority reports whether there are connections with a majority of the replicas of the catalog.
	Majority func(h *hosted.Log) bool
	Stopping context.Context // ends with Node.StopDeciding
	// Most is the limit on the encoded state in bytes: cluster.MaxCheckpointBytes, or less in
	// tests.
	Most int
}

// Changes appends the changes of the catalog that this node decides.
type Changes struct {
	Options
	catalog *Catalog

	// Waiting holds the changes that are not in progress yet.
	Waiting proposals
	// Turn holds one value during a whole change: this node makes one change, or one group of
	// changes, at a time. A change never holds Catalog.mu for that long, because it may have to
	// wait until this node learns something, above all the address of the leader.
	Turn chan struct{}
}

// CatalogAppend is a request that sends changes to the catalog's leader.
type CatalogAppend struct {
	End    record.Offset `json:"end"`
	Values [][]byte      `json:"values"`
}

// Change calls decide with the newest state and appends the change that decide returns, unless it
// has no effect. It tries again if another change came first, and while the catalog has no leader.
// Once proposed, a change continues after ctx has ended.
func (ch *Changes) Change(ctx context.Context, decide decideFunc) error {
	return ch.changeWithin(ctx, ChangeTimeout, decide)
}

// changeWithin is change that gives up after a time.
func (ch *Changes) changeWithin(ctx context.Context, patience time.Duration, decide decideFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// But not this node.
	defer context.AfterFunc(ch.Stopping, cancel)()
	return ch.record(ctx, decide)
}

// record makes a change in one append, together with all changes that wait at that moment, because
// separate appends would conflict.
func (ch *Changes) record(ctx context.Context, decide decideFunc) error {
	p := &Proposal{ctx: ctx, Decide: decide, done: make(chan struct{})}
	ch.Waiting.add(p)
	select {
	case ch.Turn <- struct{}{}:
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if ch.Waiting.remove(p) {
			return noMajority()
		}
		<-p.done // its maker gives up soon
		return p.err
	}
	defer func() { <-ch.Turn }()
	for { // more than once if more changes wait than one append takes
		select {
		case <-p.done:
			return p.err
		default:
			ch.recordAll(ctx, ch.Waiting.take())
		}
	}
}

// recordAll makes the changes of a group and sets the outcome of each. It gives up at the earliest
// deadline of the group. Changes that have time left and certainly did not happen wait again.
func (ch *Changes) recordAll(ctx context.Context, group []*Proposal) {
	for _, p := range group {
		if deadline, bounded := p.ctx.Deadline(); bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
	}
	err := ch.tryAll(ctx, group)
	if err == nil {
		ch.Shown()
	}
	for _, p := range group {
		switch {
		case err == nil && p.Refused != nil && !ch.hasLanded():
			p.finish(ch.GivenUp(p.Refused)) // a try before may have landed
		case err == nil:
			p.finish(p.Refused)
		case p.ctx.Err() == nil && ctx.Err() != nil && errors.Is(err, &record.Refusal{Reason: record.Busy}):
			ch.Waiting.add(p)
		default:
			p.finish(err)
		}
	}
}

func (ch *Changes) tryAll(ctx context.Context, group []*Proposal) error {
	ch.Await()
	// The state known here is usually the newest one, and the append succeeds only on the newest.
	// So the first attempt does not query the newest state, which takes two round trips.
	for known := ch.catalog.Current.Load() && ch.Majority(ch.catalog.Host()); ; known = false {
		err := ch.try(ctx, group, known)
		var r *record.Refusal
		var d decided
		switch {
		case err == nil:
			return nil
		case errors.As(err, &d):
			return ch.GivenUp(d.error)
		case ch.catalog.Host().Problem() != nil: // it will not recover
			return ch.GivenUp(err)
		case ctx.Err() != nil:
			ch.Logger.Debug("gave up a change of the catalog", "error", err)
			return ch.GivenUp(noMajority())
		case errors.Is(err, errAgain) || errors.As(err, &r) && r.Reason == record.EndMismatch:
			continue
		case errors.As(err, &r) && !r.Reason.Retryable(), r == nil && !errors.Is(err, context.DeadlineExceeded):
			return ch.GivenUp(err)
		}
		background.Pause(ctx, ChangePause)
	}
}

// GivenUp returns the error of a change that is not tried again. If an earlier attempt may have
// succeeded, why must not claim that nothing has happened.
func (ch *Changes) GivenUp(why error) error {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	known, said := record.NotDone, record.NotDone
	if len(ch.catalog.Awaited) > 0 {
		known = record.MaybeDone
	}
	if r := new(record.Refusal); errors.As(why, &r) {
		said = r.Reason.Outcome()
	}
	if known.Then(said) == said {
		return why
	}
	return record.Refuse(record.OutcomeUnknown, "the catalog lost its majority or leader during the change; it may have happened, or may still happen: check before trying again")
}

// try decides and appends a group, on the newest state or, if known is set, on the state known
// here.
func (ch *Changes) try(ctx context.Context, group []*Proposal, known bool) error {
	learn := ch.catalog.Refresh
	if known {
		learn = ch.catalog.Learn
	}
	if err := learn(ctx); err != nil {
		return err
	}
	at, values, err := ch.Decide(group)
	if known && (err != nil || len(values) < len(group)) {
		// Only the newest state can refuse a change, or have it already.
		if err == nil && len(values) > 0 {
			ch.withdraw()
		}
		return errAgain
	}
	if err != nil || len(values) == 0 {
		return err
	}
	proposed := ch.propose(ctx, at, values)
	if r := new(record.Refusal); errors.As(proposed, &r) && r.Reason.Outcome() == record.NotDone {
		ch.withdraw()
	}
	// Only the log itself shows whether a change has landed.
	if proposed == nil && ch.catalog.arrives(ctx, at) {
		return nil
	}
	if err := ch.catalog.Refresh(ctx); err != nil {
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

// Decide returns the records to append, and their offset. It returns none if there is nothing to
// change, or an earlier attempt has succeeded meanwhile. Each proposal is decided as if the earlier
// ones had succeeded; they succeed together or not at all.
func (ch *Changes) Decide(group []*Proposal) (at record.Offset, values [][]byte, err error) {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	switch {
	case ch.catalog.landed:
		return 0, nil, nil
	case ch.catalog.missed:
		return 0, nil, decided{record.Refuse(record.OutcomeUnknown, "this node was too slow to see whether the change was made: check, and try again if it was not")}
	}
	// An attempt that was not among the records up to here can no longer succeed.
	ch.catalog.Awaited = slices.DeleteFunc(ch.catalog.Awaited, func(t CatalogTry) bool { return t.At < ch.catalog.Next })
	state, id := &ch.catalog.state, rand.Text()
	if len(group) > 1 {
		scratch := ch.catalog.state.Clone()
		state = &scratch
	}
	size := ch.catalog.size
	for i, p := range group {
		var change cluster.Change
		if change, p.Refused = p.Decide(state); p.Refused == nil {
			change, p.Refused = Refusable(change, cluster.Allow(state, change))
		}
		if p.Refused != nil || change.Empty() {
			continue
		}
		change.ID = id
		value, err := json.Marshal(change)
		if err != nil {
			return 0, nil, fmt.Errorf("encode change: %w", err)
		}
		if size += cluster.MostAdded(len(value)); size > ch.Most {
			if size, p.Refused = cluster.Fit(state, change, ch.Most); p.Refused != nil {
				continue
			}
		}
		values = append(values, value)
		if i < len(group)-1 {
			if err := state.Fold(change); err != nil {
				return 0, nil, fmt.Errorf("decide a change: %w", err)
			}
		}
	}
	if len(values) > 0 {
		ch.catalog.Awaited = append(ch.catalog.Awaited, CatalogTry{Change: id, At: ch.catalog.Next})
	}
	return ch.catalog.Next, values, nil
}

// Await begins a change that has not been attempted yet.
func (ch *Changes) Await() {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	ch.catalog.Awaited, ch.catalog.landed, ch.catalog.missed = nil, false, false
}

// withdraw: the newest try was refused, so that it will never land.
func (ch *Changes) withdraw() {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	ch.catalog.Awaited = ch.catalog.Awaited[:len(ch.catalog.Awaited)-1]
}

func (ch *Changes) hasLanded() bool {
	ch.catalog.mu.Lock()
	defer ch.catalog.mu.Unlock()
	return ch.catalog.landed
}

// propose appends changes at the leader, if the catalog ends at an offset.
func (ch *Changes) propose(ctx context.Context, end record.Offset, values [][]byte) error {
	s := ch.catalog.Host().Replica.Status()
	if s.Leading {
		return ch.AppendAt(ctx, end, values)
	}
	node := ch.NodeOf(ch.catalog.Host(), s.Leader)
	if node == 0 {
		return record.Refuse(record.NotLeader, "the catalog has no leader at the moment")
	}
	return ch.Ask(ctx, node, CatalogAppend{End: end, Values: values})
}

// AppendAt appends records to the catalog on this node if the catalog ends at an offset: all
// records or none. It refuses without a connection to a majority, since the outcome would stay
// unknown.
func (ch *Changes) AppendAt(ctx context.Context, end record.Offset, values [][]byte) error {
	if !ch.Majority(ch.catalog.Host()) {
		return noMajority()
	}
	var b record.Builder
	b.Reset(nil)
	for _, value := range values {
		if err := b.Add(record.Record{Timestamp: ch.Now().UnixMilli(), Value: value}); err != nil {
			return err
		}
	}
	batch, err := b.Finish(record.None)
	if err != nil {
		return err
	}
	return ch.catalog.Host().AppendAt(ctx, end, batch)
}

// CatalogTry is an append to the catalog on condition that it ends at an offset.
type CatalogTry struct {
	Change string // the id of all its records
	At     record.Offset
}

// noMajority refuses a change that no leader could be asked for. Nothing has
// happened.
func noMajority() *record.Refusal {
	return record.Refuse(record.Busy, "nothing was changed: the catalog has no majority of nodes at the moment, or its leader is unreachable")
}

// errAgain: the change did not land, and may be decided anew at once.
var errAgain = errors.New("the change did not land")

// decided is an error of decide, which is final.
type decided struct{ error }

// decideFunc decides what to change in a state. It may be called several times; its last result
// counts.
type decideFunc = func(*cluster.State) (cluster.Change, error)

// Refusable converts a decision of package cluster to the results of a decideFunc: a nil refusal
// becomes a nil error.
func Refusable(c cluster.Change, r *record.Refusal) (cluster.Change, error) {
	if r != nil {
		return cluster.Change{}, r
	}
	return c, nil
}

// Proposal is a change of the catalog that a caller waits for.
type Proposal struct {
	ctx    context.Context
	Decide decideFunc
	// Refused is the last error of decide. Only the goroutine that makes the change uses it.
	Refused error
	err     error         // valid once done is closed
	done    chan struct{} // the outcome is known
}

func (p *Proposal) finish(err error) {
	p.err = err
	close(p.done)
}

// MaxTogether is the limit on the changes of one append, and so on its bytes: settings of 4 KiB may
// take six times as much in JSON, and a batch may have 16 MiB.
const MaxTogether = 256

// proposals are the changes that wait, oldest first.
type proposals struct {
	Mu   sync.Mutex
	List []*Proposal
}

func (w *proposals) add(p *Proposal) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.List = append(w.List, p)
}

// remove removes a proposal and reports whether it was waiting.
func (w *proposals) remove(p *Proposal) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	i := slices.Index(w.List, p)
	if i < 0 {
		return false
	}
	w.List = slices.Delete(w.List, i, i+1)
	return true
}

// take removes and returns the oldest proposals, at most MaxTogether.
func (w *proposals) take() []*Proposal {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	n := min(len(w.List), MaxTogether)
	group := slices.Clone(w.List[:n])
	w.List = slices.Delete(w.List, 0, n)
	return group
}
