package verbs

import (
	"context"
	"time"

	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/sequence"
)

// Holds sets, keeps and releases the holds of logs.
type Holds struct{ finder *Finder }

// NewHolds returns the verbs of holds.
func NewHolds(finder *Finder) *Holds { return &Holds{finder: finder} }

// Hold is a hold of a log according to this node.
type Hold struct {
	record.Hold
	// Kept is the number of bytes of records at and after its offset on this node, counted in
	// entries that begin there or later.
	Kept int64
}

// HoldPlace is the offset of a hold and the end of its log.
type HoldPlace struct {
	Log         uint64 // id of the log
	Offset, End record.Offset
}

// minHoldLease is the least that a client can renew in time.
const minHoldLease = time.Second

// SetHold sets a hold, or moves the hold with its name, and returns its offset and the log's end at
// that time. If at is not reading.FromOffset, the hold is set at the log's start or end at that
// time. The refusal is OffsetTrimmed if records that the hold would keep were already removed.
func (hs *Holds) SetHold(ctx context.Context, caller Caller, log string, hold record.Hold, at reading.FromKind) (HoldPlace, error) {
	h, refusal := hs.finder.userLog(caller, log)
	if refusal == nil {
		refusal = hold.Check()
	}
	if refusal == nil {
		refusal = h.RoomFor(0)
	}
	if lease := time.Duration(hold.Lease) * time.Millisecond; refusal == nil && lease > 0 && lease < minHoldLease {
		refusal = record.Refuse(record.Invalid, "a lease must be at least %v, not %v", minHoldLease, lease)
	}
	if refusal != nil {
		return HoldPlace{}, refusal
	}
	if hold.Principal = ""; h.Principals() {
		hold.Principal = caller.Principal
	}
	c := record.Command{Kind: record.SetHold, Offset: hold.Offset, Lease: hold.Lease, Text: record.AppendHoldCommand(nil, hold)}
	switch at {
	case reading.FromStart:
		c.Flags = record.FlagFromStart
	case reading.FromTail:
		c.Flags = record.FlagFromEnd
	}
	a, err := h.Command(ctx, c)
	return HoldPlace{h.ID, a.Start, a.End}, err
}

// KeepHold renews a hold's lease, as SetHold does.
func (hs *Holds) KeepHold(ctx context.Context, caller Caller, log, name string) error {
	h, refusal := hs.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	return h.Keep(ctx, func(c *core.Core, done func(sequence.Answer)) { c.Reads.KeepHold(name, done) })
}

// ReleaseHold ends a hold, regardless of the caller that set it.
func (hs *Holds) ReleaseHold(ctx context.Context, caller Caller, log, name string) error {
	h, refusal := hs.finder.userLog(caller, log)
	if refusal != nil {
		return refusal
	}
	_, err := h.Command(ctx, record.Command{Kind: record.ReleaseHold, Text: []byte(name)})
	return err
}

// HoldsOf returns the holds of a log, by name, according to this node.
func (hs *Holds) HoldsOf(h *hosted.Log) (holds []Hold) {
	if h.Replica == nil {
		return nil
	}
	list := h.Replica.Status().Holds
	if len(list) == 0 {
		return nil // part of every description, so it must not read the disk
	}
	from := make([]record.Offset, len(list))
	for i := range list {
		from[i] = list[i].Offset
	}
	// If the size cannot be determined, it counts as 0: a read of the damaged data reports the
	// reason.
	kept, err := h.Replica.BytesFrom(from...)
	for i, one := range list {
		holds = append(holds, Hold{Hold: one})
		if err == nil {
			holds[i].Kept = kept[i]
		}
	}
	return holds
}
