package record

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryReasonHasANameOfItsOwn(t *testing.T) {
	wireName := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	seen := map[string]Reason{}
	for _, r := range Reasons() {
		require.Regexp(t, wireName, r.String(), "reason %d", uint8(r))
		require.NotContains(t, seen, r.String())
		seen[r.String()] = r
	}
	require.Len(t, seen, int(reasonEnd)-1)
	require.Equal(t, "REASON_0", Reason(0).String())
	require.Equal(t, fmt.Sprintf("REASON_%d", reasonEnd), reasonEnd.String())
}

func TestAReasonAnswersWhetherToRetryAndWhetherItCouldBeInTheLog(t *testing.T) {
	for _, r := range Reasons() {
		switch r {
		case OutcomeUnknown, StorageFailed:
			require.Equal(t, MaybeDone, r.Outcome(), r)
		case OutcomeForgotten:
			require.Equal(t, Done, r.Outcome(), r)
		default:
			require.Equal(t, NotDone, r.Outcome(), r)
		}
	}
	for _, r := range []Reason{NotLeader, Full, Busy, ShuttingDown, OutcomeUnknown, StorageFailed} {
		require.True(t, r.Retryable(), r)
	}
	for _, r := range []Reason{Invalid, TooLarge, Fenced, Sealed, StaleEpoch, SequenceGap} {
		require.False(t, r.Retryable(), r)
	}
}

func TestAnUnknownReasonPromisesNothing(t *testing.T) {
	for _, r := range []Reason{0, reasonEnd, 255} {
		require.False(t, r.Retryable())
		require.Equal(t, MaybeDone, r.Outcome())
	}
}

func TestARefusalIsFoundByItsReasonThroughWrapping(t *testing.T) {
	err := fmt.Errorf("append to orders: %w", &Refusal{Reason: EndMismatch, Detail: "the log ends at 7", End: 7})
	require.ErrorIs(t, err, &Refusal{Reason: EndMismatch})
	require.NotErrorIs(t, err, &Refusal{Reason: Fenced})
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, Offset(7), refusal.End)
	require.EqualError(t, err, "append to orders: END_MISMATCH: the log ends at 7")
}

// Every append that is let in asks for it.
func TestNoRefusalCostsNoMemory(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { require.Nil(t, RefusalOf(nil)) }))
}
