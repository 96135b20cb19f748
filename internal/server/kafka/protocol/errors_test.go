package protocol

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/record"
)

func TestEveryReasonHasACodeThatSaysTheSame(t *testing.T) {
	for _, reason := range record.Reasons() {
		code := errorCodes[reason]
		require.NotNil(t, code, reason)
		if reason.Retryable() {
			require.True(t, code.Retriable, "%s may succeed later, %s says it cannot", reason, code.Message)
		}
	}
	require.Len(t, errorCodes, len(record.Reasons()))
}

func TestErrorsKeepTheirCodeThroughWrapping(t *testing.T) {
	refusal := record.Refuse(record.LogNotFound, "there is no log")
	for err, code := range map[error]*kerr.Error{
		fmt.Errorf("look up: %w", refusal):               kerr.UnknownTopicOrPartition,
		Refuse(kerr.InvalidConfig, "no such setting"):    kerr.InvalidConfig,
		fmt.Errorf("wait: %w", context.DeadlineExceeded): kerr.RequestTimedOut,
		fmt.Errorf("wait: %w", context.Canceled):         kerr.NotLeaderForPartition,
		errors.New("anything else"):                      kerr.UnknownServerError,
	} {
		require.Equal(t, code.Code, CodeOf(err))
	}
	require.Zero(t, CodeOf(nil))
	require.Nil(t, DetailOf(nil))
	require.Equal(t, "there is no log", *DetailOf(refusal))
}

func TestTooLargeIsAMessageOnlyWhereThereIsOne(t *testing.T) {
	tooMany := record.Refuse(record.TooLarge, "there are 10000 logs")
	require.Equal(t, kerr.PolicyViolation.Code, CodeOf(tooMany))
	require.Equal(t, kerr.MessageTooLarge.Code, ProduceCode(tooMany))
}
