package client

import (
	"context"
	"math"
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
	LogID uint64 // id of its log
}

// Resolution is what became of one record of a session.
type Resolution struct {
	State ResolveState
	// Offset is where the record is, if Committed.
	Offset int64
	// Epoch is the session's now.
	Epoch uint32
	// Next is the first sequence of the epoch asked for that is not in the log, if
	// Known. All below are in it; where the epoch has ended (State is Never), none
	// from here on ever will be.
	Next  uint64
	Known bool
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
	return a.openSession(ctx, log, 0, lease)
}

// openSession begins a session on the log with an id; 0: whichever has the name.
func (a *Admin) openSession(ctx context.Context, log string, id uint64, lease time.Duration) (Session, error) {
	request := &strandlinev1.OpenSessionRequest{Log: log, LogId: id}
	if lease > 0 {
		request.Lease = durationpb.New(lease)
	}
	var session Session
	err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewSessionServiceClient(conn).OpenSession(ctx, request)
		session = Session{ID: answer.GetSessionId(), Epoch: answer.GetEpoch(), Lease: answer.GetLease().AsDuration(), LogID: answer.GetLogId()}
		return err
	})
	return session, err
}

// KeepSession renews the lease. Every append does so too.
func (a *Admin) KeepSession(ctx context.Context, log string, id uint64) error {
	return a.keepSession(ctx, log, 0, id)
}

// keepSession renews the lease of a session of the log with an id; 0: whichever
// log has the name.
func (a *Admin) keepSession(ctx context.Context, log string, logID, id uint64) error {
	return a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewSessionServiceClient(conn).KeepSession(ctx,
			&strandlinev1.KeepSessionRequest{Log: log, LogId: logID, SessionId: id})
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
		resolution = Resolution{State: ResolveState(answer.GetState()), Offset: answer.GetOffset(), Epoch: answer.GetEpoch(), Next: answer.GetNextSequence()}
		resolution.Known = answer != nil && answer.NextSequence != nil
		return err
	})
	return resolution, err
}

// EndEpoch ends an epoch of a session for good and tells, with Resolution.Next,
// how many records of it are in the log: those with sequences below, and no other
// ever will be. A program that was restarted asks so where to go on; see
// docs/at-most-once.md. Known is false if the log does not know the session any
// more.
func (a *Admin) EndEpoch(ctx context.Context, log string, id uint64, epoch uint32) (Resolution, error) {
	return a.Resolve(ctx, log, id, epoch, math.MaxUint64, true)
}
