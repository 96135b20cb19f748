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
	// State is the holder of the lease, as this node knew it a moment later.
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
	state, err := h.WatchWriter(ctx, nil)
	for err == nil && state.Holder.Term < a.WriterTerm {
		before := state // the grant is committed, and not applied here yet
		state, err = h.WatchWriter(ctx, &before)
	}
	if err != nil && a.WriterTerm == 0 {
		return WriterGrant{}, err
	}
	return WriterGrant{Log: h.ID, Term: a.WriterTerm, End: a.End, State: state}, nil
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
