package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Session makes appends at most once and in order. A Producer opens and keeps
// its own.
type Session struct {
	ID    uint64
	Epoch uint32
	Lease time.Duration
}

// Resolution is what became of one record of a session.
type Resolution struct {
	State ResolveState
	// Offset is where the record is, if Committed.
	Offset int64
	// Epoch is the session's now.
	Epoch uint32
}

// ResolveState is the verdict of Admin.Resolve.
type ResolveState uint8

const (
	// Committed: in the log.
	Committed ResolveState = iota + 1
	// Pending: on its way; ask again.
	Pending
	// NotNow: not in the log, but a request still under way may bring it.
	NotNow
	// Never: not in the log, and it never will be.
	Never
	// Forgotten: below the low-water mark or too old; the log no longer knows.
	Forgotten
)

var resolveStateNames = [...]string{
	Committed: "committed", Pending: "pending", NotNow: "not now", Never: "never", Forgotten: "forgotten",
}

func (s ResolveState) String() string {
	if s < Committed || int(s) >= len(resolveStateNames) {
		return "unknown"
	}
	return resolveStateNames[s]
}

// OpenSession begins a session at epoch 0, sequence 0. A lease of 0 means the
// server's default of 60 s.
func (a *Admin) OpenSession(ctx context.Context, log string, lease time.Duration) (Session, error) {
	request := &strandlinev1.OpenSessionRequest{Log: log}
	if lease > 0 {
		request.Lease = durationpb.New(lease)
	}
	var session Session
	err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewSessionServiceClient(conn).OpenSession(ctx, request)
		session = Session{ID: answer.GetSessionId(), Epoch: answer.GetEpoch(), Lease: answer.GetLease().AsDuration()}
		return err
	})
	return session, err
}

// KeepSession renews the lease. Every append does so too.
func (a *Admin) KeepSession(ctx context.Context, log string, id uint64) error {
	return a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewSessionServiceClient(conn).KeepSession(ctx,
			&strandlinev1.KeepSessionRequest{Log: log, SessionId: id})
		return err
	})
}

// CloseSession ends the session: its appends are refused from then on.
func (a *Admin) CloseSession(ctx context.Context, log string, id uint64) error {
	return a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewSessionServiceClient(conn).CloseSession(ctx,
			&strandlinev1.CloseSessionRequest{Log: log, SessionId: id})
		return err
	})
}

// Resolve settles one record whose answer was lost. With final, a record that
// is not in the log never will be: the session's epoch ends.
func (a *Admin) Resolve(ctx context.Context, log string, id uint64, epoch uint32, sequence uint64, final bool) (Resolution, error) {
	var resolution Resolution
	err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewSessionServiceClient(conn).Resolve(ctx, &strandlinev1.ResolveRequest{
			Log: log, SessionId: id, Epoch: epoch, Sequence: sequence, Final: final,
		})
		resolution = Resolution{State: ResolveState(answer.GetState()), Offset: answer.GetOffset(), Epoch: answer.GetEpoch()}
		return err
	})
	return resolution, err
}
