package sequence

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// One user sets holds until it is refused, others still can.
func TestOnePrincipalLeavesHalfOfTheHoldsOfALogToOthers(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	set := func(principal, name string) *record.Refusal {
		h := record.Hold{Name: name, Principal: principal}
		return s.Command(record.Command{Kind: record.SetHold, Text: record.AppendHoldCommand(nil, h)}).Refusal
	}
	for i := range MaxHolds / 2 {
		require.Nil(t, set("user/bob", fmt.Sprint("bob-", i)))
	}
	refusal := set("user/bob", "one-more")
	require.NotNil(t, refusal, "those in flight count")
	require.Equal(t, record.TooLarge, refusal.Reason)
	require.EqualValues(t, MaxHolds/2, refusal.Limit)
	require.Equal(t, "the caller has 32 holds of this log, and the remaining 32 are reserved for others: release an unused one", refusal.Detail)
	require.Nil(t, set("user/bob", "bob-0"), "one that it has")
	require.Nil(t, set("user/carol", "carol-0"))
	commitAll(t, s)
	require.Len(t, s.table.Holds(), MaxHolds/2+1)
	require.NotNil(t, set("user/bob", "one-more"))
	require.Nil(t, set("user/bob", "carol-0"), "moving one of another makes no more of them")
	require.Nil(t, set("user/carol", "carol-1"))

	for i := len(s.log.holds.all()); i < MaxHolds; i++ { // as they are where rights are not enforced
		require.Nil(t, set("", fmt.Sprint("nobody-", i)))
	}
	refusal = set("", "one-more")
	require.NotNil(t, refusal)
	require.EqualValues(t, MaxHolds, refusal.Limit)
	commitAll(t, s)

	// What an earlier release accepted is there: the table judges no shares.
	replayed := NewTable()
	for i := range MaxHolds {
		h := record.Hold{Name: fmt.Sprint("bob-", i), Principal: "user/bob"}
		require.Empty(t, replayed.log.setHold(record.Command{Kind: record.SetHold, Text: record.AppendHoldCommand(nil, h)}))
	}
}
