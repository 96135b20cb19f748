package group

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// share is what the leader of a group of consumers sends a member.
func share(topics map[string][]int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	for topic, partitions := range topics {
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic, t.Partitions = topic, partitions
		a.Topics = append(a.Topics, t)
	}
	return a.AppendTo(nil)
}

func TestAnEvictedMemberIsUnknownAndOthersComeTogetherAnew(t *testing.T) {
	g := New()
	answers := map[string]Joined{}
	join := func(id, instance string) {
		g.Join(0, Join{NewID: id, Instance: instance, ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}}, SessionMs: 10_000, RebalanceMs: 10_000},
			func(j Joined) { answers[id] = j })
	}
	join("a", "")
	join("b", "box-1")
	join("c", "")
	g.Tick(InitialDelayMs)
	require.Equal(t, Syncing, g.Describe().State)
	for id, j := range answers {
		require.NoError(t, j.Err, id)
		g.Sync(InitialDelayMs, Sync{MemberID: id, Instance: map[string]string{"b": "box-1"}[id], Generation: j.Generation}, func(Synced) {})
	}
	require.Equal(t, Stable, g.Describe().State)

	require.Zero(t, g.Evict(400, "nobody"))
	require.Equal(t, Stable, g.Describe().State, "nobody has gone")
	require.Equal(t, 1, g.Evict(400, "box-1"))
	require.Equal(t, Joining, g.Describe().State)
	require.ErrorIs(t, g.Heartbeat(400, "b", "box-1", answers["b"].Generation), kerr.UnknownMemberID)
	require.ErrorIs(t, g.Heartbeat(400, "a", "", answers["a"].Generation), kerr.RebalanceInProgress)
	require.Equal(t, 1, g.Evict(400, "a"))
	require.Equal(t, 1, g.Evict(400, ""))
	require.Equal(t, Empty, g.Describe().State)
	require.Zero(t, g.Evict(400, ""))
}

func TestAllThatWaitAreEvicted(t *testing.T) {
	g := New()
	var refused error
	g.Join(0, Join{NewID: "a", ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}}, SessionMs: 10_000, Instance: "x"}, func(j Joined) { refused = j.Err })
	g.Join(0, Join{NewID: "b", ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}}, SessionMs: 10_000, Invite: true}, func(Joined) {})
	require.NoError(t, refused)
	require.Equal(t, 1, g.Evict(1, ""))
	require.ErrorIs(t, refused, kerr.UnknownMemberID)
	require.True(t, g.Vacant())
	g.Tick(InitialDelayMs)
	require.Equal(t, Empty, g.Describe().State)
}

func TestWhatAMemberReadsIsReadUpToALimit(t *testing.T) {
	d := Description{ProtocolType: "consumer"}
	read := func(b []byte, most int) ([]Assigned, bool) { return d.Assigned(&MemberDescription{Share: b}, most) }
	all, whole := read(nil, 10)
	require.True(t, whole)
	require.Empty(t, all)
	orders := share(map[string][]int32{"orders": {0, 2, 5}})
	all, whole = read(orders, 3)
	require.True(t, whole)
	require.Equal(t, []Assigned{{"orders", []int32{0, 2, 5}}}, all)
	all, whole = read(orders, 2)
	require.False(t, whole)
	require.Equal(t, []Assigned{{"orders", []int32{0, 2}}}, all)
	all, whole = read(share(map[string][]int32{"a": nil, "b": nil, "c": nil}), 2)
	require.False(t, whole, "topics without partitions count, too")
	require.Len(t, all, 2)
	for n := range len(orders) - 4 { // without the user data behind it
		_, whole = read(orders[:n], 10)
		require.Equal(t, n == 0, whole, "cut at %d", n)
	}
	_, whole = read([]byte("\x00\x00\xff\xff\xff\xff\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x01"), 10)
	require.False(t, whole)
	d.ProtocolType = "connect"
	_, whole = read(orders, 10)
	require.False(t, whole)
}
