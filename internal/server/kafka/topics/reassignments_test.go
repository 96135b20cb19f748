package topics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/verbs"
)

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
