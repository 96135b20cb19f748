// Package protocol is what is Kafka's own: its error codes for our refusals, and how
// requests and answers of each version are laid out.
package protocol

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

// errorCodes has Kafka's code for every reason. Where Kafka has no word for a
// reason, what counts is that a client does the right thing about it: retry
// where that may help, and not take a record for lost that may be in the log.
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

// CodeOf returns the code that reports err to a client; 0 for no error.
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

// DeniedOn is the error of a caller that may not do something with an object: Kafka has a
// code for each kind of object.
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

// ProduceCode is codeOf for a refused append: records that are wrong or too large
// differ from a request that is.
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

// Refuse returns an error that is answered with code; detail says why to a person.
func Refuse(code *kerr.Error, detail string) error { return &refusedError{code, detail} }

// DetailOf returns the text that describes err to a person; nil for no error.
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

// NoOperations stands for "rights were not asked for".
const NoOperations = -1 << 31

// Text is what an optional string says; nothing is empty.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
