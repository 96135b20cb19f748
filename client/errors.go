package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// Error is the error of every call that reached, or tried to reach, a log. It says whether to
// retry and whether the call may have taken effect. Match the reason with errors.Is and the
// values below:
//
//	var e *client.Error
//	if errors.Is(err, client.ErrOffsetTrimmed) && errors.As(err, &e) {
//		next = e.Start
//	}
type Error struct {
	// Reason is a stable name such as OFFSET_TRIMMED, listed in docs/errors.md.
	Reason string
	// Message is for people.
	Message string
	// Retryable is set if the same call may succeed later or on another node. For an append whose
	// Outcome is not NotDone, that would be a second append.
	Retryable bool
	// Outcome is what is known about the effect of the call, over all its attempts. It has no
	// meaning for a call that only reads.
	Outcome Outcome

	// These resolve an append with a session whose outcome is MaybeDone, see Position. With
	// STALE_EPOCH, Epoch is the session's epoch.
	SessionID uint64
	Epoch     uint32
	Sequence  uint64

	Start            int64  // OFFSET_TRIMMED: the log's start; CHECK_TOO_OLD: the least offset since which the log can check; BUSY of a check, unless 0: a check since there instead is the same, and has less to search
	End              int64  // OFFSET_BEYOND_END, END_MISMATCH: the log's end
	ExpectedSequence uint64 // SEQUENCE_GAP: the sequence that the log expected
	WriterTerm       uint64 // FENCED: the term that holds the log
	Leader           string // NOT_LEADER: address of the leader, if known
	LogID            uint64 // LOG_REPLACED: id of the log that has the name now; with SessionID: of the session's log
	Limit            int64  // TOO_LARGE: the limit
	// Hold is, with HELD, the lowest hold of the log, which keeps the records to be trimmed. With
	// OFFSET_TRIMMED it is the highest hold with a pointer, or nil: a reader that loads the state to
	// which the pointer refers can continue at its offset.
	Hold   *HoldInfo
	Offset int64 // FILTER_FAILED, CONFLICT: of the record
	// Key is, with CONFLICT, the key of the record at Offset, which matches the check; nil if it has
	// none, or one of more than 1 KiB.
	Key          []byte
	Line, Column int // FILTER_INVALID: the place in the expression, both from 1, in characters

	cause error
	// lasting: a node cannot be reached for a reason that trying again does not change, so it is
	// not tried for long, see within. Retryable is false then.
	lasting bool
}

// Outcome is what is known about the effect of a call, over all its attempts: NotDone, MaybeDone
// or Done.
type Outcome = record.Outcome

const (
	// NotDone means that the call had no effect and never will have.
	NotDone = record.NotDone
	// MaybeDone means that it may have taken effect, or may yet do so. For an append with a session,
	// Admin.Resolve returns the outcome.
	MaybeDone = record.MaybeDone
	// Done means that it took effect, although its result is not known: for example an append whose
	// offset is forgotten.
	Done = record.Done
)

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Position returns the position in its session of the record of an append with outcome MaybeDone,
// for Admin.Resolve.
func (e *Error) Position() SessionPosition {
	return SessionPosition{LogID: e.LogID, Session: e.SessionID, Epoch: e.Epoch, Next: e.Sequence}
}

// Unwrap returns the error of the context if that was the reason, or syscall.ECONNREFUSED if
// nothing listens at the address.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// Reasons of servers.
var (
	ErrInvalid          = reason(record.Invalid)
	ErrTooLarge         = reason(record.TooLarge)
	ErrLogNotFound      = reason(record.LogNotFound)
	ErrLogExists        = reason(record.LogExists)
	ErrOffsetTrimmed    = reason(record.OffsetTrimmed)
	ErrOffsetBeyondEnd  = reason(record.OffsetBeyondEnd)
	ErrSessionNotFound  = reason(record.SessionNotFound)
	ErrSessionExpired   = reason(record.SessionExpired)
	ErrStaleEpoch       = reason(record.StaleEpoch)
	ErrSequenceGap      = reason(record.SequenceGap)
	ErrOutcomeForgotten = reason(record.OutcomeForgotten)
	ErrFenced           = reason(record.Fenced)
	ErrEndMismatch      = reason(record.EndMismatch)
	ErrNotLeader        = reason(record.NotLeader)
	ErrFull             = reason(record.Full)
	ErrBusy             = reason(record.Busy)
	ErrSealed           = reason(record.Sealed)
	ErrOutcomeUnknown   = reason(record.OutcomeUnknown)
	ErrStorageFailed    = reason(record.StorageFailed)
	ErrCorrupt          = reason(record.Corrupt)
	ErrDataLost         = reason(record.DataLost)
	ErrShuttingDown     = reason(record.ShuttingDown)
	ErrUnsupported      = reason(record.Unsupported)
	ErrStale            = reason(record.Stale)
	ErrNoNode           = reason(record.NoNode)
	ErrNotMember        = reason(record.NotMember)
	ErrLogReplaced      = reason(record.LogReplaced)
	ErrPrecondition     = reason(record.Precondition)
	ErrHeld             = reason(record.Held)
	ErrHoldNotFound     = reason(record.HoldNotFound)
	ErrUnauthenticated  = reason(record.Unauthenticated)
	ErrPermissionDenied = reason(record.Denied)
	ErrFilterInvalid    = reason(record.FilterInvalid)
	ErrFilterFailed     = reason(record.FilterFailed)
	ErrConflict         = reason(record.Conflict)
	ErrCheckTooOld      = reason(record.CheckTooOld)
)

// Reasons of this package.
var (
	// ErrUnreachable means that no node answered, or the connection broke.
	ErrUnreachable = &Error{Reason: "UNREACHABLE"}
	// ErrTimedOut means that a record had no answer within the time of WithRequestTimeout.
	ErrTimedOut = &Error{Reason: "TIMED_OUT"}
	// ErrCancelled means that the context of the call ended first; errors.Is also matches
	// context.Canceled or context.DeadlineExceeded.
	ErrCancelled = &Error{Reason: "CANCELLED"}
	// ErrClosed means that the Client, Producer, Reader or Hold has been closed.
	ErrClosed = &Error{Reason: "CLOSED"}
	// ErrBehindFailed means that an append was not done because an earlier one in the same session
	// failed, and it must not overtake it. Unwrap returns that error.
	ErrBehindFailed = &Error{Reason: "BEHIND_FAILED"}
	// ErrUnproven means that the answer of a server does not prove that the record is in the log.
	ErrUnproven = &Error{Reason: "UNPROVEN"}
)

func reason(r record.Reason) *Error { return &Error{Reason: r.String()} }

// again reports whether a producer with a session repeats a refused request. FULL is returned to
// the application: only a trim helps.
// lastingTime is how long nodes are tried that cannot be reached for a lasting reason: longer than it may take until
// files of certificates are read again, a second, and a connection is tried again. So what was replaced before
// the call counts.
const lastingTime = 1500 * time.Millisecond

// within is how long to try again after e.
func (e *Error) within(retryTime time.Duration) time.Duration {
	if e.lasting {
		return min(lastingTime, retryTime)
	}
	return retryTime
}

func (e *Error) again() bool { return (e.Retryable || e.lasting) && e.Reason != ErrFull.Reason }

// elsewhere reports whether another node, or another connection, may succeed.
func (e *Error) elsewhere() bool {
	return e.again() && e.Reason != ErrBusy.Reason && !e.renewed()
}

func (e *Error) endsSession() bool {
	return e.Reason == ErrSessionExpired.Reason || e.Reason == ErrSessionNotFound.Reason
}

// cancelled returns the error for the end of a caller's context.
func cancelled(ctx context.Context, outcome Outcome) *Error {
	cause := context.Cause(ctx)
	return &Error{Reason: ErrCancelled.Reason, Message: cause.Error(), Outcome: outcome, cause: ctx.Err()}
}

func unreachable(outcome Outcome, message string) *Error {
	return &Error{Reason: ErrUnreachable.Reason, Message: message, Retryable: true, Outcome: outcome}
}

func closed(what string) *Error {
	return &Error{Reason: ErrClosed.Reason, Message: what + " is closed"}
}

// replaced returns the error for a log whose name another log has now.
func replaced(log string, id, now uint64) *Error {
	return &Error{
		Reason: ErrLogReplaced.Reason, LogID: now,
		Message: fmt.Sprintf("log %q with id %d was deleted; another one of that name, with id %d, was created after it", log, id, now),
	}
}

// behind returns the error of an append that waited behind one that failed.
func behind(first *Error, outcome Outcome) *Error {
	return &Error{
		Reason: ErrBehindFailed.Reason, Message: "an append before it failed: " + first.Error(),
		Retryable: first.Retryable, Outcome: outcome, cause: first,
	}
}

// fromRecord converts a refusal of this process (a record too large to encode, bytes that fail
// their checksum) to an *Error.
func fromRecord(err error) *Error {
	var refusal *record.Refusal
	if !errors.As(err, &refusal) {
		return &Error{Reason: ErrInvalid.Reason, Message: err.Error()}
	}
	return &Error{
		Reason: refusal.Reason.String(), Message: refusal.Detail, Retryable: refusal.Reason.Retryable(),
		Outcome: refusal.Reason.Outcome(), Limit: refusal.Limit,
	}
}

// fromRefusal converts a refusal inside an append stream.
func fromRefusal(r *strandlinev1.Refusal) *Error {
	return fromFacts(r.Reason, r.Message, r.Metadata)
}

// fromRPC converts the error of a call or a stream. Without an ErrorInfo of Strandline it did not
// come from a log but from an intermediary.
func fromRPC(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	s, _ := status.FromError(err)
	if e := fromDetails(s); e != nil {
		return e
	}
	switch s.Code() {
	case codes.Canceled:
		return &Error{Reason: ErrCancelled.Reason, Message: s.Message(), Outcome: MaybeDone, cause: context.Canceled}
	case codes.DeadlineExceeded:
		return &Error{Reason: ErrCancelled.Reason, Message: s.Message(), Outcome: MaybeDone, cause: context.DeadlineExceeded}
	case codes.Unimplemented:
		return &Error{Reason: ErrUnsupported.Reason, Message: s.Message()}
	case codes.ResourceExhausted:
		return &Error{Reason: ErrTooLarge.Reason, Message: s.Message(), Outcome: MaybeDone}
	case codes.Unavailable, codes.Aborted, codes.Internal:
		// A connection that breaks in the middle of a message results in Internal.
		return unreachable(MaybeDone, s.Message())
	default:
		e := unreachable(MaybeDone, s.Code().String()+": "+s.Message())
		e.Retryable = false
		return e
	}
}

// fromDetails converts the details of a status; nil if none is from a log.
func fromDetails(s *status.Status) (e *Error) {
	var hold *HoldInfo
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == "strandline.dev" {
				e = fromFacts(detail.Reason, s.Message(), detail.Metadata)
			}
		case *strandlinev1.Hold:
			found := fromHold(detail)
			hold = &found
		}
	}
	if e != nil {
		e.Hold = hold
	}
	return e
}

// fromFacts returns an error from the text and metadata of a server. Missing metadata means: do
// not retry, and maybe done.
func fromFacts(reason, message string, facts map[string]string) *Error {
	e := &Error{Reason: reason, Message: message, Outcome: record.ParseOutcome(facts["outcome"]), Leader: facts["leader"]}
	e.Retryable = facts["retryable"] == "true"
	e.Start, _ = strconv.ParseInt(facts["start_offset"], 10, 64)
	e.End, _ = strconv.ParseInt(facts["end_offset"], 10, 64)
	e.Limit, _ = strconv.ParseInt(facts["limit"], 10, 64)
	e.ExpectedSequence, _ = strconv.ParseUint(facts["expected_sequence"], 10, 64)
	e.LogID, _ = strconv.ParseUint(facts["log_id"], 10, 64)
	e.WriterTerm, _ = strconv.ParseUint(facts["writer_term"], 10, 64)
	e.Offset, _ = strconv.ParseInt(facts["offset"], 10, 64)
	if key, ok := facts["key"]; ok {
		e.Key = []byte(key)
	} else if key, ok := facts["key_base64"]; ok {
		e.Key, _ = base64.StdEncoding.DecodeString(key)
	}
	e.Line, _ = strconv.Atoi(facts["line"])
	e.Column, _ = strconv.Atoi(facts["column"])
	epoch, _ := strconv.ParseUint(facts["epoch"], 10, 32)
	e.Epoch = uint32(epoch)
	return e
}
