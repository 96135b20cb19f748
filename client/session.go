package client

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// Session makes appends at most once and in order. A Producer opens and renews its own.
type Session struct {
	ID    uint64
	Epoch uint32
	Lease time.Duration
	LogID uint64 // id of its log
}

// Resolution is the outcome of one record of a session.
type Resolution struct {
	State ResolveState
	// Offset is the offset of the record, if Committed.
	Offset int64
	// Epoch is the session's current epoch.
	Epoch uint32
	// Next is the first sequence of the requested epoch that is not in the log, if Known. All below
	// are in the log; if the epoch has ended (State is Never), no others ever will be.
	Next  uint64
	Known bool
}

// ResolveState is the outcome that Admin.Resolve returns.
type ResolveState uint8

const (
	// Committed means that it is in the log.
	Committed ResolveState = iota + 1
	// Pending means that it is in flight; ask again.
	Pending
	// NotNow means that it is not in the log, but a request in flight may append it.
	NotNow
	// Never means that it is not in the log and never will be.
	Never
	// Forgotten means that it is below the low-water mark or too old; the log no longer knows.
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

// OpenSession opens a session at epoch 0, sequence 0. A lease of 0 means the server's default of
// 60 s.
func (a *Admin) OpenSession(ctx context.Context, log string, lease time.Duration) (Session, error) {
	return a.openSession(ctx, log, 0, lease)
}

// openSession opens a session on the log with an id; 0: any.
func (a *Admin) openSession(ctx context.Context, log string, id uint64, lease time.Duration) (session Session, err error) {
	if lease < 0 {
		return Session{}, &Error{Reason: ErrInvalid.Reason, Message: "the lease of a session is negative"}
	}
	request := &strandlinev1.OpenSessionRequest{Log: log, LogId: id}
	if lease > 0 {
		request.Lease = durationpb.New(lease)
	}
	err = a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewSessionServiceClient(conn).OpenSession(ctx, request)
		session = Session{ID: answer.GetSessionId(), Epoch: answer.GetEpoch(), Lease: answer.GetLease().AsDuration(), LogID: answer.GetLogId()}
		return err
	})
	return session, err
}

// KeepSession renews the lease of the session with an ID. Every append does so, too. With a
// LogID, the error is ErrLogReplaced if another log has the name.
func (a *Admin) KeepSession(ctx context.Context, log string, s Session) error {
	return a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewSessionServiceClient(conn).KeepSession(ctx,
			&strandlinev1.KeepSessionRequest{Log: log, LogId: s.LogID, SessionId: s.ID})
		return err
	})
}

// CloseSession ends the session with an ID: its appends are refused from then on. With a LogID,
// the error is ErrLogReplaced if another log has the name.
func (a *Admin) CloseSession(ctx context.Context, log string, s Session) error {
	return a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := strandlinev1.NewSessionServiceClient(conn).CloseSession(ctx,
			&strandlinev1.CloseSessionRequest{Log: log, LogId: s.LogID, SessionId: s.ID})
		return err
	})
}

// Resolve returns the outcome of the record at a position whose answer was lost: see
// Error.Position. With final, a record that is not in the log never will be: the session's epoch
// ends. With a LogID, the error is ErrLogReplaced if another log has the name.
func (a *Admin) Resolve(ctx context.Context, log string, at SessionPosition, final bool) (Resolution, error) {
	var resolution Resolution
	err := a.call(ctx, log, repeatedly, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer, err := strandlinev1.NewSessionServiceClient(conn).Resolve(ctx, &strandlinev1.ResolveRequest{
			Log: log, LogId: at.LogID, SessionId: at.Session, Epoch: at.Epoch, Sequence: at.Next, Final: final,
		})
		resolution = Resolution{State: ResolveState(answer.GetState()), Offset: answer.GetOffset(), Epoch: answer.GetEpoch(), Next: answer.GetNextSequence()}
		resolution.Known = answer != nil && answer.NextSequence != nil
		return err
	})
	return resolution, err
}

// EndEpoch ends the epoch of a position permanently. Resolution.Next is the number of its records
// in the log: those with lower sequences, and no others ever will be. So a restarted program
// finds out where to continue; see docs/at-most-once.md. Known is false if the log has forgotten
// the session.
func (a *Admin) EndEpoch(ctx context.Context, log string, at SessionPosition) (Resolution, error) {
	at.Next = math.MaxUint64
	return a.Resolve(ctx, log, at, true)
}

// SessionPosition is the position of a producer in its session, which a program stores to resume
// the session after a restart. docs/at-most-once.md describes how.
type SessionPosition struct {
	LogID   uint64 // id of the session's log
	Session uint64 // 0: none
	Epoch   uint32
	// Next is the sequence of the next record to be accepted. Records get consecutive sequences in
	// the order in which they are accepted; a new epoch begins at 0.
	Next uint64
}

// Position returns the current position of the producer. It advances with every accepted record,
// and moves to 0 in another epoch or session when a record fails, unless WithEndOnFailure is
// given.
func (p *Producer) Position() SessionPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.backlog.position(nil)
	if p.backlog.forming != nil {
		at.Next += uint64(p.backlog.forming.count)
	}
	return at
}
