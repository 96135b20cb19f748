package topics

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/node/verbs"
)

func TestPartitionsAreListedInWhateverOrderTheyAreNamed(t *testing.T) {
	topic := func(name string, partitions ...int32) kmsg.ListPartitionReassignmentsRequestTopic {
		return kmsg.ListPartitionReassignmentsRequestTopic{Topic: name, Partitions: partitions}
	}
	all := askedOf(&kmsg.ListPartitionReassignmentsRequest{})
	require.True(t, all("orders", 7))
	none := askedOf(&kmsg.ListPartitionReassignmentsRequest{Topics: []kmsg.ListPartitionReassignmentsRequestTopic{}})
	require.False(t, none("orders", 7))
	some := askedOf(&kmsg.ListPartitionReassignmentsRequest{Topics: []kmsg.ListPartitionReassignmentsRequestTopic{
		topic("orders", 9, 2, 2), topic("other", 5), topic("orders", 4, -1),
	}})
	for number := range 10 {
		require.Equal(t, number == 2 || number == 4 || number == 9, some("orders", number), number)
	}
	require.False(t, some("third", 0))
}

func TestAReplicaThatMovesIsAddedOnOneNodeAndRemovedOnAnother(t *testing.T) {
	byName := map[string]int32{"a": 1, "b": 2, "c": 3, "d": 4}
	l := verbs.LogStatus{Replicas: []verbs.ReplicaStatus{
		{Node: "a", Role: verbs.Voter}, {Node: "b", Role: verbs.Leaving}, {Node: "c", Role: verbs.Learner},
		{Node: "d", Role: verbs.ReadReplica}, {Node: "gone", Role: verbs.Voter}, {Role: verbs.Missing},
	}}
	p := reassignmentOf(byName, &l)
	require.Equal(t, []int32{1, 2, 3}, p.Replicas)
	require.Equal(t, []int32{3}, p.AddingReplicas)
	require.Equal(t, []int32{2}, p.RemovingReplicas)
	p = reassignmentOf(byName, &verbs.LogStatus{Replicas: l.Replicas[:1]})
	require.Empty(t, p.AddingReplicas)
	require.Empty(t, p.RemovingReplicas)
}
