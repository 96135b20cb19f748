package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

func TestEveryReasonHasACode(t *testing.T) {
	t.Parallel()
	for _, reason := range record.Reasons() {
		code, ok := statusCodes[reason]
		require.True(t, ok, "%v has no status code", reason)
		require.NotEqual(t, codes.OK, code, reason)
	}
	require.Len(t, statusCodes, len(record.Reasons()))
}

func TestARefusalHasTheHoldThatItIsAboutAmongItsDetails(t *testing.T) {
	t.Parallel()
	held := record.Refuse(record.Held, "kept")
	held.Hold = &record.Hold{Name: "backup", Offset: 7, Owner: "ops", Lease: 2000, MaxBytes: 8, MaxAge: 3000, Pointer: []byte{0xff, 0}}
	trimmed := record.Trimmed(1, 5, []record.Hold{{Name: "bare", Offset: 9}, {Name: "gone", Offset: 4, Pointer: []byte("x")}, *held.Hold, {Name: "low", Offset: 6, Pointer: []byte("y")}})
	for _, r := range []*record.Refusal{held, trimmed} {
		details := status.Convert(StatusOf(t.Context(), r)).Details()
		require.Len(t, details, 2, r)
		h, ok := details[1].(*strandlinev1.Hold)
		require.True(t, ok)
		require.Equal(t, `name:"backup"  offset:7  owner:"ops"  lease:{seconds:2}  max_bytes:8  max_age:{seconds:3}  pointer:"\xff\x00"`, strings.ReplaceAll(strings.ReplaceAll(h.String(), "  ", " "), " ", "  "))
	}
	require.Equal(t, map[string]string{"retryable": "false", "outcome": "not_done", "hold": "backup", "hold_offset": "7"}, facts(held))
}

func TestARefusedCheckHasOffsetAndKeyAmongItsMetadata(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {}, []byte("account/7"), {0xff, 0}, bytes.Repeat([]byte{0xff}, record.MaxConflictKey)} {
		r := record.Refuse(record.Conflict, "it is there")
		r.At, r.Key = 7, key
		m := facts(r)
		require.Equal(t, []string{"7", "false", "not_done"}, []string{m["offset"], m["retryable"], m["outcome"]})
		text, isText := m["key"]
		encoded, isEncoded := m["key_base64"]
		switch {
		case key == nil:
			require.False(t, isText || isEncoded)
		case isText:
			require.Equal(t, string(key), text)
		default:
			decoded, err := base64.StdEncoding.DecodeString(encoded)
			require.NoError(t, err)
			require.Equal(t, key, decoded)
		}
		_, err := proto.Marshal(InStream(r, false))
		require.NoError(t, err, "metadata are text")
	}
	old := record.Refuse(record.CheckTooOld, "it is too old")
	old.Start = 9
	require.Equal(t, map[string]string{"retryable": "false", "outcome": "not_done", "start_offset": "9"}, facts(old))
	busy := record.Refuse(record.Busy, "its search took too long")
	require.Equal(t, map[string]string{"retryable": "true", "outcome": "not_done"}, facts(busy))
	busy.Start = 9
	require.Equal(t, map[string]string{"retryable": "true", "outcome": "not_done", "start_offset": "9"}, facts(busy))
}

func infoOf(t *testing.T, err error) *errdetails.ErrorInfo {
	t.Helper()
	s, ok := status.FromError(err)
	require.True(t, ok)
	require.Len(t, s.Details(), 1)
	info, ok := s.Details()[0].(*errdetails.ErrorInfo)
	require.True(t, ok)
	return info
}

func TestAStatusAndAnAnswerInAStreamSayTheSameFacts(t *testing.T) {
	t.Parallel()
	for _, reason := range record.Reasons() {
		r := &record.Refusal{
			Reason: reason, Detail: "why", Start: 1, End: 2, Expected: 3, Epoch: 4, WriterTerm: 5, Leader: "six:6", Limit: 7,
		}
		err := StatusOf(context.Background(), fmt.Errorf("append: %w", r))
		info := infoOf(t, err)
		require.Equal(t, "strandline.dev", info.Domain)
		require.Equal(t, reason.String(), info.Reason)
		require.Equal(t, "why", status.Convert(err).Message())

		inStream := InStream(r, false)
		require.Equal(t, int32(status.Code(err)), inStream.Code)
		require.Equal(t, reason.String(), inStream.Reason)
		require.Equal(t, info.Metadata, inStream.Metadata)
		require.Contains(t, inStream.Metadata, "retryable")
		require.Contains(t, inStream.Metadata, "outcome")
	}
}

func TestAReasonCarriesWhatItIsAbout(t *testing.T) {
	t.Parallel()
	full := record.Refusal{Start: 1, End: 2, Expected: 3, Epoch: 4, WriterTerm: 5, Leader: "six:6", Limit: 7}
	for reason, want := range map[record.Reason]map[string]string{
		record.OffsetTrimmed:   {"retryable": "false", "outcome": "not_done", "start_offset": "1"},
		record.DataLost:        {"retryable": "false", "outcome": "not_done", "start_offset": "1"},
		record.OffsetBeyondEnd: {"retryable": "false", "outcome": "not_done", "end_offset": "2"},
		record.EndMismatch:     {"retryable": "false", "outcome": "not_done", "end_offset": "2"},
		record.SequenceGap:     {"retryable": "false", "outcome": "not_done", "expected_sequence": "3"},
		record.StaleEpoch:      {"retryable": "false", "outcome": "not_done", "epoch": "4"},
		record.Fenced:          {"retryable": "false", "outcome": "not_done", "writer_term": "5"},
		record.NotLeader:       {"retryable": "true", "outcome": "not_done", "leader": "six:6"},
		record.TooLarge:        {"retryable": "false", "outcome": "not_done", "limit": "7"},
		record.OutcomeUnknown:  {"retryable": "true", "outcome": "maybe_done"},
		record.Invalid:         {"retryable": "false", "outcome": "not_done"},
	} {
		r := full
		r.Reason = reason
		require.Equal(t, want, facts(&r), reason)
	}
}

func TestARefusalOfAPartlyAppendedRequestDoesNotClaimThatNothingIsInTheLog(t *testing.T) {
	t.Parallel()
	r := record.Refuse(record.Full, "no room")
	require.Equal(t, "not_done", InStream(r, false).Metadata["outcome"])
	require.Equal(t, "maybe_done", InStream(r, true).Metadata["outcome"])
}

func TestTheEndOfAContextIsReportedWithItsCause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, codes.Canceled, status.Code(StatusOf(ctx, ctx.Err())))

	stopped, stop := context.WithCancelCause(context.Background())
	stop(ErrStopping)
	err := StatusOf(stopped, stopped.Err())
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, "SHUTTING_DOWN", infoOf(t, err).Reason)

	require.NoError(t, StatusOf(stopped, nil))
}

// Some gRPC clients take 8 KiB of headers by default.
func TestARefusalWithTheLargestHoldFitsIntoHeaders(t *testing.T) {
	t.Parallel()
	hold := record.Hold{
		Name: strings.Repeat("\x01", record.MaxHoldName), Owner: strings.Repeat("\u00f6", record.MaxHoldOwner/2), Offset: math.MaxInt64,
		Lease: math.MaxUint32, MaxBytes: math.MaxInt64, MaxAge: math.MaxInt32, Pointer: make([]byte, record.MaxHoldPointer),
	}
	held := record.Refuse(record.Held, "hold %q keeps all records from offset %d on", hold.Name, hold.Offset)
	held.Hold = &hold
	wide := hold
	wide.Name = strings.Repeat("\u00f6", record.MaxHoldName/2)
	for _, r := range []*record.Refusal{held, record.Trimmed(math.MaxInt64-2, math.MaxInt64-1, []record.Hold{wide}), record.Trimmed(math.MaxInt64-2, math.MaxInt64-1, []record.Hold{hold})} {
		s := status.Convert(StatusOf(t.Context(), r)).Proto()
		details, err := proto.Marshal(s)
		require.NoError(t, err)
		require.Len(t, s.Details, 2)
		bytes := 0
		for name, value := range map[string]string{
			":status": "200", "content-type": "application/grpc", "grpc-status": "11",
			"grpc-message": s.Message, "grpc-status-details-bin": base64.StdEncoding.EncodeToString(details),
		} {
			bytes += 32 + len(name) + len(value)
			for _, b := range []byte(value) {
				if b < ' ' || b > '~' || b == '%' {
					bytes += 2 // written as %XX
				}
			}
		}
		require.LessOrEqual(t, bytes, 8<<10, r.Reason)
	}
}
