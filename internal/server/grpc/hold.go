package grpcserver

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

type holds interface {
	SetHold(ctx context.Context, c verbs.Caller, log string, hold record.Hold, at reading.FromKind) (verbs.HoldPlace, error)
	KeepHold(ctx context.Context, c verbs.Caller, log, name string) error
	ReleaseHold(ctx context.Context, c verbs.Caller, log, name string) error
	KnownHolds(c verbs.Caller, log string) ([]verbs.Hold, error)
}

func (d *logService) SetHold(ctx context.Context, q *strandlinev1.SetHoldRequest) (*strandlinev1.SetHoldResponse, error) {
	hold, at, refusal := decodeHold(q)
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	place, err := d.node.SetHold(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), hold, at)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.SetHoldResponse{Offset: int64(place.Offset), EndOffset: int64(place.End), LogId: place.Log}, nil
}

func (d *logService) KeepHold(ctx context.Context, q *strandlinev1.KeepHoldRequest) (*strandlinev1.KeepHoldResponse, error) {
	if err := d.node.KeepHold(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), q.GetName()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.KeepHoldResponse{}, nil
}

func (d *logService) ReleaseHold(ctx context.Context, q *strandlinev1.ReleaseHoldRequest) (*strandlinev1.ReleaseHoldResponse, error) {
	if err := d.node.ReleaseHold(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), q.GetName()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.ReleaseHoldResponse{}, nil
}

// decodeHold refuses a request that the node cannot represent.
func decodeHold(q *strandlinev1.SetHoldRequest) (hold record.Hold, at reading.FromKind, refusal *record.Refusal) {
	h := q.GetHold()
	lease, refusal := milliseconds("lease", h.GetLease(), math.MaxUint32)
	if refusal != nil {
		return hold, at, refusal
	}
	age, refusal := milliseconds("largest age", h.GetMaxAge(), math.MaxInt64)
	if refusal != nil {
		return hold, at, refusal
	}
	at = reading.FromOffset
	if q.Position != nil {
		switch q.GetPosition() {
		case strandlinev1.ReadPosition_READ_POSITION_UNSPECIFIED, strandlinev1.ReadPosition_READ_POSITION_START:
			at = reading.FromStart
		case strandlinev1.ReadPosition_READ_POSITION_TAIL:
			at = reading.FromTail
		default:
			return hold, at, record.Refuse(record.Unsupported, "unknown position %v", q.GetPosition())
		}
	}
	return record.Hold{
		Name: h.GetName(), Offset: record.Offset(h.GetOffset()), Owner: h.GetOwner(), Lease: uint32(lease),
		MaxBytes: h.GetMaxBytes(), MaxAge: age, Pointer: h.GetPointer(),
	}, at, nil
}

// milliseconds rounds a duration up, so that one that is set remains so.
func milliseconds(what string, d *durationpb.Duration, limit int64) (int64, *record.Refusal) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, record.Refuse(record.Invalid, "%s: %v", what, err)
	}
	ms := int64((d.AsDuration() + time.Millisecond - 1) / time.Millisecond)
	if d.AsDuration() < 0 || ms < 0 || ms > limit {
		return 0, record.Refuse(record.Invalid, "%s must not be %v", what, d.AsDuration())
	}
	return ms, nil
}
