package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

func TestGroupsAreListedPageByPage(t *testing.T) {
	d := open(t)
	d.create("orders")
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		require.NoError(t, d.c.SetGroupOffsets(t.Context(), verbs.Caller{}, id, []Offset{{Topic: "orders", Offset: 1}}))
	}
	ids, more := d.c.visible(verbs.Caller{}, "", 2)
	require.Equal(t, []string{"a", "b"}, ids)
	require.True(t, more)
	ids, more = d.c.visible(verbs.Caller{}, "b", 2)
	require.Equal(t, []string{"c", "d"}, ids)
	require.True(t, more)
	ids, more = d.c.visible(verbs.Caller{}, "d", 2)
	require.Equal(t, []string{"e"}, ids)
	require.False(t, more)
	some, next, err := d.c.ListGroups(t.Context(), verbs.Caller{}, "d")
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, []Listed{{Name: "e", State: "Empty"}}, some)
}

func TestOffsetsThatCannotBeSetAreRefusedAndNoneIs(t *testing.T) {
	d := open(t)
	d.create("orders")
	ok := Offset{Topic: "orders", Offset: 1}
	for what, all := range map[string][]Offset{
		"none":         {},
		"too many":     make([]Offset, MaxSet+1),
		"negative":     {{Topic: "orders", Offset: -1}},
		"twice":        {ok, ok},
		"no partition": {ok, {Topic: "orders", Partition: 1}},
		"below 0":      {ok, {Topic: "orders", Partition: -1}},
		"no topic":     {ok, {Topic: "absent"}},
		"the system's": {ok, {Topic: "_offsets"}},
		"large":        {{Topic: "orders", Metadata: string(make([]byte, MaxCommitMetadata+1))}},
	} {
		refusal := record.RefusalOf(d.c.SetGroupOffsets(t.Context(), verbs.Caller{}, "billing", all))
		require.NotNil(t, refusal, what)
		require.False(t, refusal.Reason.Retryable(), what)
		require.Equal(t, record.NotDone, refusal.Reason.Outcome(), what)
	}
	require.ErrorIs(t, d.c.SetGroupOffsets(t.Context(), verbs.Caller{}, "", []Offset{ok}), &record.Refusal{Reason: record.Invalid})
	_, err := d.c.DescribeGroup(t.Context(), verbs.Caller{}, "billing")
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Precondition})
	_, err = d.c.ListGroupOffsets(t.Context(), verbs.Caller{}, "billing", make([]string, MaxTopics+1))
	require.ErrorIs(t, err, &record.Refusal{Reason: record.Invalid})
}
