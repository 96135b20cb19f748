package verbs

import (
	"context"
	"errors"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/metrics"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/sequence"
)

// Reads begins reads.
type Reads struct {
	metrics *metrics.Metrics
	memory  *budget.Memory
	ages    *hosted.Ages
	finder  *Finder
	pace    reading.Pace
	turns   *reading.Turns
}

// NewReads returns the verbs that read, within memory. While a log is read, ages keeps what its
// replica knows up to date.
func NewReads(metrics *metrics.Metrics, memory *budget.Memory, ages *hosted.Ages, finder *Finder) *Reads {
	return &Reads{metrics: metrics, memory: memory, ages: ages, finder: finder, turns: reading.NewTurns(memory.Reads.Size())}
}

// Read begins a read. ctx bounds finding the place to begin; the Reader's own
// calls take theirs.
func (rd *Reads) Read(ctx context.Context, c Caller, log string, q reading.Request) (*reading.Reader, error) {
	r, err := rd.beginRead(ctx, c, log, q)
	if refusal := (*record.Refusal)(nil); errors.As(err, &refusal) {
		rd.metrics.Refused("read", refusal)
	}
	return r, err
}

func (rd *Reads) beginRead(ctx context.Context, c Caller, log string, q reading.Request) (*reading.Reader, error) {
	h, refusal := rd.finder.serving(c, log)
	if refusal != nil {
		return nil, refusal
	}
	turns := rd.turnsOf(c)
	selects, err := turns.Filter(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	if err := rd.makeSure(ctx, h, &q); err != nil {
		return nil, err
	}
	first, err := rd.locate(ctx, h, q.From)
	if err != nil {
		return nil, err
	}
	rd.ages.Begin(h)
	source := rd.source(h, turns)
	source.Filter = selects
	return reading.New(source, q, first, func() { rd.ages.End(h) }), nil
}

func (rd *Reads) source(h *hosted.Log, turns *reading.Turns) reading.Source {
	return reading.Source{
		Log: h, ID: h.ID, Replica: h.Replica, Intake: &h.Intake, Pace: &rd.pace, Turns: turns, Skipped: rd.metrics.Skipped,
		Reads: rd.memory.Reads, Stalled: rd.memory.StalledReads,
	}
}

// turnsOf are the turns and searches of a client.
func (rd *Reads) turnsOf(c Caller) *reading.Turns { return rd.turns.For(c.whose()) }

// lookBack searches a log for a match of a check below the keys that its leader keeps.
func (rd *Reads) lookBack(c Caller, h *hosted.Log, check *sequence.Check) {
	reading.LookBack(rd.source(h, rd.turnsOf(c)), check)
}

// makeSure waits until this replica knows what the read asks for.
func (rd *Reads) makeSure(ctx context.Context, h *hosted.Log, q *reading.Request) error {
	switch q.Consistency {
	case reading.ConsistencyLinearizable:
		return h.Confirm(ctx)
	case reading.ConsistencyAtLeast:
		return rd.awaitEnd(ctx, h, q.AtLeast)
	case reading.ConsistencyBounded:
		if q.MaxAge < hosted.MinMaxAge {
			return record.Refuse(record.Invalid, "max_age must be at least %v, not %v", hosted.MinMaxAge, q.MaxAge)
		}
		if h.Age() <= q.MaxAge {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, q.MaxAge)
		defer cancel()
		if err := h.Confirm(limited); err != nil && ctx.Err() == nil {
			return h.Stale(q.MaxAge)
		}
		return ctx.Err()
	}
	return nil
}

// awaitEnd waits until the end known here has reached an offset.
func (rd *Reads) awaitEnd(ctx context.Context, h *hosted.Log, offset record.Offset) error {
	_, end, err := h.Replica.Tail().AwaitBounds(ctx, func(_, end record.Offset) bool { return end >= offset })
	if errors.Is(err, context.DeadlineExceeded) {
		return record.Refuse(record.Stale, "this replica knows log %q up to offset %d, not %d yet", h.Name, end, offset)
	}
	return err
}

// locate turns the beginning of a read into an offset.
func (rd *Reads) locate(ctx context.Context, h *hosted.Log, from reading.From) (record.Offset, error) {
	start, end, err := h.Replica.Tail().Bounds()
	if err != nil {
		return 0, err
	}
	switch from.Kind {
	case reading.FromTail:
		if err := h.Confirm(ctx); err != nil {
			return 0, err
		}
		_, end, err = h.Replica.Tail().Bounds()
		return end, err
	case reading.FromTime:
		o, err := h.Replica.OffsetAtTime(from.Time)
		if err != nil {
			return 0, h.RefuseStorage(err)
		}
		return min(max(o, start), end), nil
	case reading.FromOffset:
		return rd.checkBegin(ctx, h, from.Offset)
	}
	return start, nil
}

// checkBegin refuses an offset that cannot be read, now or by waiting.
func (rd *Reads) checkBegin(ctx context.Context, h *hosted.Log, o record.Offset) (record.Offset, error) {
	start, end, err := h.Replica.Tail().Bounds()
	if err != nil {
		return 0, err
	}
	if o > end {
		if err := h.Confirm(ctx); err != nil {
			return 0, err
		}
		start, end, err = h.Replica.Tail().Bounds()
		if err != nil {
			return 0, err
		}
	}
	switch {
	case o < h.Reserved.Load().Lost:
		r := record.Refuse(record.DataLost, "offset %d was in memory only and is lost; the log now starts at %d", o, start)
		r.Start = start
		return 0, r
	case o < start:
		return 0, tail.RefuseTrimmed(h.Replica.Tail(), o, start)
	case o > end:
		r := record.Refuse(record.OffsetBeyondEnd, "offset %d is beyond the end of the log, which is %d", o, end)
		r.End = end
		return 0, r
	}
	return o, nil
}
