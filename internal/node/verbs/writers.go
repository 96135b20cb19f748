package verbs

import (
	"context"
	"errors"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// Writers grants, keeps and releases the writer leases of logs, and returns their holders.
type Writers struct{ finder *Finder }

// NewWriters returns the verbs of writer leases.
func NewWriters(finder *Finder) *Writers { return &Writers{finder: finder} }

const (
	// minWriterLease is the least that a client can renew in time.
	minWriterLease = time.Second
	// MaxWriterWait bounds how long one call waits for the writer lease.
	MaxWriterWait = time.Minute
	// appliedWait is how long a grant waits until this node has applied it. Its lease passes meanwhile.
	appliedWait = 100 * time.Millisecond
)

// WriterState is the holder of the writer lease of a log.
type WriterState = core.WriterState

// WriterGrant is the answer to a program that wants the writer lease.
type WriterGrant struct {
	Log uint64 // id of the log
	// Term is 0 if another program has the lease. All appends of older writers in the log are below
	// End, and no more will be added.
	Term record.WriterTerm
	End  record.Offset
	// State is the holder of the lease, as this node knew it a moment later. If it had not applied the
	// grant then, State is what the grant makes it.
	State WriterState
}

// LeaseWriter grants the writer lease of a log with the next writer term. While another program has
// it, the caller waits in line for at most wait.
func (ws *Writers) LeaseWriter(ctx context.Context, caller Caller, log string, w record.Writer, wait time.Duration) (WriterGrant, error) {
	h, refusal := ws.finder.userLog(caller, log)
	if refusal == nil {
		refusal = w.Check()
	}
	if lease := time.Duration(w.Lease) * time.Millisecond; refusal == nil && lease < minWriterLease {
		refusal = record.Refuse(record.Invalid, "a lease must be at least %v, not %v", minWriterLease, lease)
	}
	if refusal == nil && w.Lease > sequence.MaxWriterLeaseMs {
		refusal = record.Refuse(record.TooLarge, "the lease has %d ms, the limit is %d", w.Lease, sequence.MaxWriterLeaseMs)
		refusal.Limit = sequence.MaxWriterLeaseMs
	}
	if refusal == nil {
		refusal = h.RoomForTerm()
	}
	if refusal != nil {
		return WriterGrant{}, refusal
	}
	a, err := h.LeaseWriter(ctx, &core.WriterRequest{Writer: w, Whose: caller.whose()}, min(wait, MaxWriterWait))
	if err != nil {
		return WriterGrant{}, err
	}
	granted := time.Now()
	grant := WriterGrant{Log: h.ID, Term: a.WriterTerm, End: a.End}
	if grant.Term == 0 {
		if grant.State, err = h.WatchWriter(ctx, nil); err != nil {
			return WriterGrant{}, err
		}
		return grant, nil
	}
	grant.State, err = applied(ctx, h, grant.Term)
	switch {
	case ctx.Err() != nil:
		h.AbandonWriter(grant.Term)
		return WriterGrant{}, ctx.Err()
	case err != nil:
		grant.State = WriterState{
			Holder: sequence.Holder{Writer: w, Term: grant.Term, Leased: granted.UnixMilli()},
			Left:   int64(w.Lease) - time.Since(granted).Milliseconds(),
		}
	}
	return grant, nil
}

// applied returns the state once this node has applied the grant of a term. It fails if that takes
// longer than appliedWait.
func applied(ctx context.Context, h *hosted.Log, term record.WriterTerm) (WriterState, error) {
	ctx, cancel := context.WithTimeout(ctx, appliedWait)
	defer cancel()
	state, err := h.WatchWriter(ctx, nil)
	for err == nil && state.Holder.Term < term {
		before := state
		state, err = h.WatchWriter(ctx, &before)
	}
	return state, err
}

// KeepWriter renews the writer lease that was granted with a term, as appends with the term do.
func (ws *Writers) KeepWriter(ctx context.Context, caller Caller, log string, term record.WriterTerm) error {
	h, refusal := ws.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	return h.Keep(ctx, func(c *core.Core, done func(sequence.Answer)) { c.Writers.Keep(term, done) })
}

// ReleaseWriter ends the writer lease that was granted with a term: the next program in line gets
// it, or the one named to.
func (ws *Writers) ReleaseWriter(ctx context.Context, caller Caller, log string, term record.WriterTerm, to string) error {
	h, refusal := ws.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	return h.ReleaseWriter(ctx, term, to)
}

// AbandonWriter ends the writer lease that was granted with a term, and that nobody has been given. It
// does not wait.
func (ws *Writers) AbandonWriter(caller Caller, log string, term record.WriterTerm) {
	if h, refusal := ws.finder.userLog(caller, log); refusal == nil {
		h.AbandonWriter(term)
	}
}

// WatchWriter returns the holder of the writer lease of a log that this node leads: at once if seen is
// nil, otherwise when that has changed, or after a time.
func (ws *Writers) WatchWriter(ctx context.Context, caller Caller, log string, seen *WriterState, after time.Duration) (WriterState, error) {
	h, refusal := ws.finder.serving(caller, log)
	if refusal == nil {
		refusal = ws.finder.leading(h)
	}
	if refusal != nil {
		return WriterState{}, refusal
	}
	if seen == nil {
		return ws.newest(ctx, h)
	}
	limited, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	before := *seen // the replica may look at it for longer than this call takes, and the caller changes its own
	state, err := h.WatchWriter(limited, &before)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return h.WatchWriter(ctx, nil)
	}
	return state, err
}

// newest returns the state with everything that was committed before the call.
func (ws *Writers) newest(ctx context.Context, h *hosted.Log) (WriterState, error) {
	if err := h.Confirm(ctx); err != nil {
		return WriterState{}, err
	}
	return h.WatchWriter(ctx, nil)
}
