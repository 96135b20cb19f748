// Package protocol has the parts specific to Kafka: its error codes for our refusals, and the
// layouts of requests and answers of each version.
package protocol

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

// errorCodes has Kafka's code for every reason. If Kafka has none, the code is chosen so that a
// client does the right thing: it retries if that may help, and does not consider a record lost
// that may be in the log.
var errorCodes = map[record.Reason]*kerr.Error{
	record.Invalid:          kerr.InvalidRequest,
	record.TooLarge:         kerr.PolicyViolation, // of an append: see produceCode
	record.LogNotFound:      kerr.UnknownTopicOrPartition,
	record.LogExists:        kerr.TopicAlreadyExists,
	record.OffsetTrimmed:    kerr.OffsetOutOfRange,
	record.OffsetBeyondEnd:  kerr.OffsetOutOfRange,
	record.SessionNotFound:  kerr.UnknownProducerID,
	record.SessionExpired:   kerr.UnknownProducerID,
	record.StaleEpoch:       kerr.InvalidProducerEpoch,
	record.SequenceGap:      kerr.OutOfOrderSequenceNumber,
	record.OutcomeForgotten: kerr.DuplicateSequenceNumber,
	record.Fenced:           kerr.ProducerFenced,
	record.EndMismatch:      kerr.InvalidRequest,
	record.NotLeader:        kerr.NotLeaderForPartition,
	record.Full:             kerr.KafkaStorageError,
	record.Busy:             kerr.NotEnoughReplicas, // retried, and not in the log
	record.Sealed:           kerr.PolicyViolation,
	record.OutcomeUnknown:   kerr.NotEnoughReplicasAfterAppend, // retried, and perhaps in the log
	record.StorageFailed:    kerr.KafkaStorageError,
	record.Corrupt:          kerr.KafkaStorageError,
	record.DataLost:         kerr.OffsetOutOfRange,
	record.ShuttingDown:     kerr.NotLeaderForPartition,
	record.Unsupported:      kerr.InvalidRequest,
	record.Stale:            kerr.ReplicaNotAvailable,
	record.NoNode:           kerr.BrokerNotAvailable,
	record.NotMember:        kerr.BrokerNotAvailable,
	record.LogReplaced:      kerr.UnknownTopicOrPartition,
	record.Precondition:     kerr.PolicyViolation,
	record.Held:             kerr.PolicyViolation,
	record.HoldNotFound:     kerr.InvalidRequest,
	record.Unauthenticated:  kerr.SaslAuthenticationFailed,
	record.FilterInvalid:    kerr.InvalidRequest, // reads of Kafka's consumers have no filter
	record.FilterFailed:     kerr.InvalidRequest,
	record.Conflict:         kerr.InvalidRequest, // appends of Kafka's producers have no check
	record.CheckTooOld:      kerr.InvalidRequest,
	record.Denied:           kerr.TopicAuthorizationFailed, // of a topic: see DeniedOn
}

// CodeOf returns Kafka's code for err; 0 for no error.
func CodeOf(err error) int16 {
	if err == nil {
		return 0
	}
	return kafkaError(err).Code
}

func kafkaError(err error) *kerr.Error {
	var (
		refusal *record.Refusal
		known   *kerr.Error
	)
	switch {
	case errors.As(err, &refusal):
		if e := errorCodes[refusal.Reason]; e != nil {
			return e
		}
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded):
		return kerr.RequestTimedOut
	case errors.Is(err, context.Canceled): // the client has gone, or the node stops
		return errorCodes[record.ShuttingDown]
	}
	return kerr.UnknownServerError
}

// DeniedOn returns the error for a caller without a right on an object: Kafka has a code for each
// kind of object.
func DeniedOn(o access.Object, err error) error {
	if !errors.Is(err, &record.Refusal{Reason: record.Denied}) {
		return err
	}
	code := kerr.TopicAuthorizationFailed
	switch o.Kind {
	case access.Group:
		code = kerr.GroupAuthorizationFailed
	case access.Cluster:
		code = kerr.ClusterAuthorizationFailed
	}
	return Refuse(code, record.RefusalOf(err).Detail)
}

// ProduceCode is CodeOf for a refused append: invalid or too large records have other codes than
// invalid or too large requests.
func ProduceCode(r *record.Refusal) int16 {
	switch r.Reason {
	case record.Invalid:
		return kerr.InvalidRecord.Code
	case record.TooLarge:
		return kerr.MessageTooLarge.Code
	}
	return CodeOf(r)
}

// refusedError is a code with words for a person.
type refusedError struct {
	code   *kerr.Error
	detail string
}

func (e *refusedError) Error() string { return e.detail }
func (e *refusedError) Unwrap() error { return e.code }

// Refuse returns an error with a code; detail is the reason for people.
func Refuse(code *kerr.Error, detail string) error { return &refusedError{code, detail} }

// DetailOf returns the text of err for people; nil for no error.
func DetailOf(err error) *string {
	if err == nil {
		return nil
	}
	var refusal *record.Refusal
	text := err.Error()
	if errors.As(err, &refusal) {
		text = refusal.Detail
	}
	return &text
}

// NoOperations means that rights were not requested.
const NoOperations = -1 << 31

// Text returns an optional string, or an empty string for nil.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
