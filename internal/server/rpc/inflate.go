package rpc

import (
	"context"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
)

// Inflating checks compressed batches of clients, a limited number at a time and within a node's
// memory. All ports of a node share it. A few hundred bytes may inflate to record.MaxInflatedBytes,
// so unlimited concurrent checks could use all processors and more memory than the node has.
type Inflating struct {
	turns  *budget.Turns
	memory *budget.Pool
}

// NewInflating returns an Inflating within a node's memory.
func NewInflating(m *budget.Memory) *Inflating { return &Inflating{m.Inflate, m.Inflating} }

const (
	// firstInflated is the initial limit for inflating a small batch; usualRatio, per byte, that
	// for a large one. A batch that exceeds the limit is inflated again with a limit moreInflated
	// times as high, repeatedly if necessary.
	firstInflated = 64 << 10
	usualRatio    = 8
	moreInflated  = 8
)

var errGivenUp = record.Refuse(record.Busy, "the connection or the server ended before a compressed batch was checked")

// roomFor returns the peak memory of inflating to the given size, see record.MaxInflatedBytes.
func roomFor(inflated int) int64 { return int64(inflated) * 9 / 4 }

// Check is Batch.Check for a batch of a caller. It returns the largest inflated size of the batch,
// for Again; 0 for an uncompressed batch, for which it does not wait. The error is a
// *record.Refusal, which is BUSY if ctx ended first.
func (i *Inflating) Check(ctx context.Context, caller string, b record.Batch) (inflated int, err error) {
	if len(b) < record.BatchHeaderSize || b.Compression() == record.None {
		return 0, b.Check()
	}
	if i.turns.Acquire(ctx, caller) != nil {
		return 0, errGivenUp
	}
	defer i.turns.Release()
	for inflated = max(firstInflated, usualRatio*len(b)); ; inflated *= moreInflated {
		inflated = min(inflated, record.MaxInflatedBytes)
		within, err := i.within(ctx, inflated, b)
		if within || err != nil {
			return inflated, err
		}
	}
}

func (i *Inflating) within(ctx context.Context, inflated int, b record.Batch) (bool, error) {
	if i.memory.Acquire(ctx, roomFor(inflated)) != nil {
		return false, errGivenUp
	}
	defer i.memory.Release(roomFor(inflated))
	return b.CheckWithin(inflated)
}

// Again calls f, which inflates a batch that Check has checked and needs the same memory again.
func (i *Inflating) Again(ctx context.Context, caller string, inflated int, f func() error) error {
	if i.turns.Acquire(ctx, caller) != nil {
		return errGivenUp
	}
	defer i.turns.Release()
	room := roomFor(inflated) + int64(inflated)
	if i.memory.Acquire(ctx, room) != nil {
		return errGivenUp
	}
	defer i.memory.Release(room)
	return f()
}
