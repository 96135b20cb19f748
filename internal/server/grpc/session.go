package grpcserver

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
)

type sessions interface {
	OpenSession(ctx context.Context, c verbs.Caller, log string, lease time.Duration) (verbs.Session, error)
	KeepSession(ctx context.Context, c verbs.Caller, log string, id record.SessionID) error
	CloseSession(ctx context.Context, c verbs.Caller, log string, id record.SessionID) error
	Resolve(ctx context.Context, c verbs.Caller, log string, id record.SessionID, e record.Epoch, s record.Sequence, final bool) (sequence.Outcome, record.Epoch, error)
}

type sessionService struct {
	strandlinev1.UnimplementedSessionServiceServer
	node Node
}

func (d *sessionService) OpenSession(ctx context.Context, q *strandlinev1.OpenSessionRequest) (*strandlinev1.OpenSessionResponse, error) {
	if l := q.GetLease(); l != nil && l.CheckValid() != nil {
		return nil, rpc.StatusOf(ctx, record.Refuse(record.Invalid, "lease: %v", l.CheckValid()))
	}
	s, err := d.node.OpenSession(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), q.GetLease().AsDuration())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.OpenSessionResponse{
		SessionId: uint64(s.ID), Epoch: uint32(s.Epoch), Lease: durationpb.New(s.Lease), LogId: s.Log,
	}, nil
}

func (d *sessionService) KeepSession(ctx context.Context, q *strandlinev1.KeepSessionRequest) (*strandlinev1.KeepSessionResponse, error) {
	if err := d.node.KeepSession(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.SessionID(q.GetSessionId())); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.KeepSessionResponse), nil
}

func (d *sessionService) CloseSession(ctx context.Context, q *strandlinev1.CloseSessionRequest) (*strandlinev1.CloseSessionResponse, error) {
	if err := d.node.CloseSession(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.SessionID(q.GetSessionId())); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.CloseSessionResponse), nil
}

func (d *sessionService) Resolve(ctx context.Context, q *strandlinev1.ResolveRequest) (*strandlinev1.ResolveResponse, error) {
	outcome, epoch, err := d.node.Resolve(ctx, knowing(ctx, q.GetLogId()), q.GetLog(), record.SessionID(q.GetSessionId()),
		record.Epoch(q.GetEpoch()), record.Sequence(q.GetSequence()), q.GetFinal())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	answer := &strandlinev1.ResolveResponse{
		State: resolveStates[outcome.State], Offset: int64(outcome.Offset), Epoch: uint32(epoch),
	}
	if outcome.Known {
		next := uint64(outcome.Next)
		answer.NextSequence = &next
	}
	return answer, nil
}

var resolveStates = map[sequence.State]strandlinev1.ResolveState{
	sequence.Committed: strandlinev1.ResolveState_RESOLVE_STATE_COMMITTED,
	sequence.Pending:   strandlinev1.ResolveState_RESOLVE_STATE_PENDING,
	sequence.NotNow:    strandlinev1.ResolveState_RESOLVE_STATE_NOT_NOW,
	sequence.Never:     strandlinev1.ResolveState_RESOLVE_STATE_NEVER,
	sequence.Forgotten: strandlinev1.ResolveState_RESOLVE_STATE_FORGOTTEN,
}
