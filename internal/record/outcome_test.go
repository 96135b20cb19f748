package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestWhatIsKnownOfAnOperationNeverFallsBack(t *testing.T) {
	const notDone, maybe, done = record.NotDone, record.MaybeDone, record.Done
	for _, c := range []struct{ first, next, want record.Outcome }{
		{notDone, notDone, notDone},
		{notDone, maybe, maybe},
		{notDone, done, done},
		{maybe, notDone, maybe}, // the second try was refused: that says nothing of the first
		{maybe, maybe, maybe},
		{maybe, done, done}, // the second try found the effect of the first
		{done, notDone, done},
		{done, maybe, done},
		{done, done, done},
	} {
		require.Equal(t, c.want, c.first.Then(c.next), "%v, then %v", c.first, c.next)
	}
}

func TestAnOutcomeIsReadAsItIsWritten(t *testing.T) {
	for _, o := range []record.Outcome{record.NotDone, record.MaybeDone, record.Done} {
		require.Equal(t, o, record.ParseOutcome(o.String()))
	}
	for _, unknown := range []string{"", "NOT_DONE", "perhaps"} {
		require.Equal(t, record.MaybeDone, record.ParseOutcome(unknown), "an outcome that is not known must not be taken for none")
	}
	require.Equal(t, "maybe_done", record.Outcome(77).String())
}
