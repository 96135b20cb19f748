package verbs

import (
	"context"

	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/tracing"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/sequence"
)

// Appends takes records and trims.
type Appends struct {
	metrics   *metrics.Metrics
	tracer    *tracing.Tracer // nil: nothing is traced
	finder    *Finder
	retention *replicas.Retention
	reads     *Reads
}

// NewAppends returns the verbs that append and trim. They read for checks as reads do. Without a tracer
// nothing is traced.
func NewAppends(metrics *metrics.Metrics, tracer *tracing.Tracer, finder *Finder, reads *Reads, retention *replicas.Retention) *Appends {
	return &Appends{metrics: metrics, tracer: tracer, finder: finder, reads: reads, retention: retention}
}

// awaitStart waits until a trim is visible on this node, so that a client which knows of the trim
// sees it. A leader answers once a majority has the trim, possibly before its own disk has it and
// it is applied here. The trim has happened even if the wait fails, so nothing is returned.
func awaitStart(ctx context.Context, in *tail.Tail, start record.Offset) {
	_, _, _ = in.AwaitBounds(ctx, func(at, _ record.Offset) bool { return at >= start })
}

// maxOffset keeps a fast-forward from leaving a log without offsets.
const maxOffset record.Offset = 1 << 62

// Append adds the records of one request to a log. The batches must have been
// checked (record.Batch.Check) and must not change until done, which is called
// exactly once, when the records are as durable as the log promises or a
// refusal is certain. Appends of one goroutine to one log keep their order. One with a check may
// wait for reads of the log, see reading.LookBack.
//
// written, unless it is nil, is called at most once and before done, when the leader has
// written the records and before anything is durable or committed. They may yet be lost,
// and their offsets given to others; no reader sees them before they are committed.
//
// Both are called from any goroutine, or before Append returns, and must not block.
func (ap *Appends) Append(c Caller, log string, a *sequence.Append, written, done func(sequence.Answer)) {
	done = ap.metrics.MeasuredAppend(log, a, done)
	if ap.tracer != nil {
		done = ap.tracer.Append(c.Trace, log, a, done)
	}
	h, refusal := ap.finder.LogFor(c, log)
	if refusal == nil {
		refusal = h.Admit(a)
	}
	if refusal != nil {
		done(sequence.Answer{Refusal: refusal})
		return
	}
	if a.Stages != nil {
		done = ap.finder.named(h, a.Stages, done)
	}
	if a.Check != nil {
		ap.reads.lookBack(c, h, a.Check)
	}
	a.Digested = h.Digests()
	h.Replica.Append(&core.Request{Append: a, Written: written, Done: done})
}

// Trim drops every record below before. Readers see the new start at once;
// disk space follows segment by segment. A trim beyond the end is refused
// unless fastForward lets it move the log on. Trimming below the start changes
// nothing and is no error.
func (ap *Appends) Trim(ctx context.Context, caller Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error) {
	h, refusal := ap.finder.LogFor(caller, log)
	limit := maxOffset
	switch {
	case refusal != nil:
		return 0, 0, refusal
	case h.Config.Load().Durability == settings.Memory:
		limit = replicas.MaxMemoryOffset
	}
	switch {
	case before < 0:
		return 0, 0, record.Refuse(record.Invalid, "offset %d is below 0", before)
	case before > limit:
		return 0, 0, record.Refuse(record.Invalid, "offset %d is above the limit of a fast-forward of this log, %d", before, int64(limit))
	case fastForward && h.Config.Load().Durability == settings.Memory:
		// The offsets are reserved before the log reaches them.
		if err := ap.retention.ReserveMemory(ctx, h, before); err != nil {
			return 0, 0, err
		}
	}
	c := record.Command{Kind: record.Trim, Offset: before}
	if fastForward {
		c.Flags = record.FlagFastForward
	}
	a, err := h.Command(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	awaitStart(ctx, h.Replica.Tail(), a.Start)
	return a.Start, a.End, nil
}

// Seal ends a log for good: appends are refused with SEALED from then on. Records stay, and can be
// read and trimmed. No record will have the offset end or a higher one. Sealing a sealed log changes
// nothing. A log with durability memory is refused.
func (ap *Appends) Seal(ctx context.Context, caller Caller, log string) (start, end record.Offset, err error) {
	h, refusal := ap.finder.LogFor(caller, log)
	if refusal == nil && h.Config.Load().Durability == settings.Memory {
		refusal = record.Refuse(record.Invalid, "log %q has durability memory and cannot be sealed, since a loss of its records would lose the seal too", log)
	}
	if refusal != nil {
		return 0, 0, refusal
	}
	a, err := h.Command(ctx, record.Command{Kind: record.Seal})
	if err != nil {
		return 0, 0, err
	}
	return a.Start, a.End, nil
}
