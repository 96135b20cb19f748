package rpc

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// errorDomain is the domain of every ErrorInfo.
const errorDomain = "strandline.dev"

// ErrStopping is the cause with which a stopping server ends its streams.
var ErrStopping = record.Refuse(record.ShuttingDown, "this node is shutting down")

// statusCodes has a code for every reason. Programs should look at the reason instead.
var statusCodes = map[record.Reason]codes.Code{
	record.Invalid:          codes.InvalidArgument,
	record.TooLarge:         codes.InvalidArgument,
	record.LogNotFound:      codes.NotFound,
	record.LogExists:        codes.AlreadyExists,
	record.OffsetTrimmed:    codes.OutOfRange,
	record.OffsetBeyondEnd:  codes.OutOfRange,
	record.SessionNotFound:  codes.FailedPrecondition,
	record.SessionExpired:   codes.FailedPrecondition,
	record.StaleEpoch:       codes.FailedPrecondition,
	record.SequenceGap:      codes.FailedPrecondition,
	record.OutcomeForgotten: codes.AlreadyExists,
	record.Fenced:           codes.Aborted,
	record.EndMismatch:      codes.FailedPrecondition,
	record.NotLeader:        codes.Unavailable,
	record.Full:             codes.ResourceExhausted,
	record.Busy:             codes.ResourceExhausted,
	record.Sealed:           codes.FailedPrecondition,
	record.OutcomeUnknown:   codes.Unknown,
	record.StorageFailed:    codes.Unavailable,
	record.Corrupt:          codes.DataLoss,
	record.DataLost:         codes.DataLoss,
	record.ShuttingDown:     codes.Unavailable,
	record.Unsupported:      codes.Unimplemented,
	record.Stale:            codes.Unavailable,
	record.NoNode:           codes.FailedPrecondition,
	record.NotMember:        codes.Unavailable,
	record.LogReplaced:      codes.NotFound,
	record.Precondition:     codes.FailedPrecondition,
	record.Held:             codes.FailedPrecondition,
	record.HoldNotFound:     codes.NotFound,
	record.Unauthenticated:  codes.Unauthenticated,
	record.Denied:           codes.PermissionDenied,
	record.FilterInvalid:    codes.InvalidArgument,
	record.FilterFailed:     codes.FailedPrecondition,
	record.Conflict:         codes.FailedPrecondition,
	record.CheckTooOld:      codes.FailedPrecondition,
}

// StatusOf converts the error of a verb called with ctx to the error of a handler. It returns a
// status unchanged. If ctx ended with a cause, it converts the cause.
func StatusOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	var r *record.Refusal
	if errors.As(err, &r) {
		return Status(r, statusCodes[r.Reason])
	}
	if _, is := status.FromError(err); is {
		return err
	}
	return status.FromContextError(err).Err()
}

// Status returns a refusal as the status of a call, with the given code instead of its own.
func Status(r *record.Refusal, code codes.Code) error {
	s := status.New(code, r.Detail)
	info := &errdetails.ErrorInfo{Reason: r.Reason.String(), Domain: errorDomain, Metadata: facts(r)}
	details := []protoadapt.MessageV1{info}
	if r.Hold != nil {
		details = append(details, EncodeHold(r.Hold))
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

// EncodeHold returns the encoding of a hold for clients.
func EncodeHold(h *record.Hold) *strandlinev1.Hold {
	out := &strandlinev1.Hold{Name: h.Name, Offset: int64(h.Offset), Owner: h.Owner, MaxBytes: h.MaxBytes, Pointer: h.Pointer}
	if h.Lease > 0 {
		out.Lease = durationpb.New(time.Duration(h.Lease) * time.Millisecond)
	}
	if h.MaxAge > 0 {
		out.MaxAge = durationpb.New(time.Duration(h.MaxAge) * time.Millisecond)
	}
	return out
}

// InStream returns a refusal as an answer in an append stream. partly means that an earlier send
// has appended a part of the request.
func InStream(r *record.Refusal, partly bool) *strandlinev1.Refusal {
	metadata := facts(r)
	if partly && r.Reason.Outcome() == record.NotDone {
		metadata["outcome"] = record.MaybeDone.String()
	}
	return &strandlinev1.Refusal{
		Code:     int32(statusCodes[r.Reason]),
		Reason:   r.Reason.String(),
		Message:  r.Detail,
		Metadata: metadata,
	}
}

// facts returns the metadata of a refusal: whether to retry, whether the request may have taken
// effect, and the details of its reason.
func facts(r *record.Refusal) map[string]string {
	m := map[string]string{
		"retryable": strconv.FormatBool(r.Reason.Retryable()),
		"outcome":   r.Reason.Outcome().String(),
	}
	switch r.Reason {
	case record.OffsetTrimmed, record.DataLost, record.CheckTooOld:
		m["start_offset"] = strconv.FormatInt(int64(r.Start), 10)
	case record.Busy:
		if r.Start > 0 {
			m["start_offset"] = strconv.FormatInt(int64(r.Start), 10)
		}
	case record.Held:
		if r.Hold != nil {
			m["hold"], m["hold_offset"] = r.Hold.Name, strconv.FormatInt(int64(r.Hold.Offset), 10)
		}
	case record.OffsetBeyondEnd, record.EndMismatch:
		m["end_offset"] = strconv.FormatInt(int64(r.End), 10)
	case record.SequenceGap:
		m["expected_sequence"] = strconv.FormatUint(uint64(r.Expected), 10)
	case record.StaleEpoch:
		m["epoch"] = strconv.FormatUint(uint64(r.Epoch), 10)
	case record.Fenced:
		m["writer_term"] = strconv.FormatUint(uint64(r.WriterTerm), 10)
	case record.TooLarge:
		m["limit"] = strconv.FormatInt(r.Limit, 10)
	case record.LogReplaced:
		m["log_id"] = strconv.FormatUint(r.LogID, 10)
	case record.FilterInvalid:
		m["line"], m["column"] = strconv.Itoa(r.Line), strconv.Itoa(r.Column)
	case record.FilterFailed:
		m["offset"] = strconv.FormatInt(int64(r.At), 10)
	case record.Conflict:
		m["offset"] = strconv.FormatInt(int64(r.At), 10)
		switch {
		case r.Key == nil:
		case utf8.Valid(r.Key):
			m["key"] = string(r.Key)
		default:
			m["key_base64"] = base64.StdEncoding.EncodeToString(r.Key)
		}
	case record.NotLeader:
		if r.Leader != "" {
			m["leader"] = r.Leader
		}
	}
	return m
}
