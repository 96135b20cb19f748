package topics

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicIdsDifferByClusterAndLogAndAreNoOptions(t *testing.T) {
	seen := map[topicID]bool{}
	for _, cluster := range []string{"a", "b"} {
		for log := range uint64(1000) {
			id := topicIDOf(cluster, log)
			require.Equal(t, id, topicIDOf(cluster, log))
			require.False(t, seen[id])
			require.Less(t, id[0], byte(0x80))
			seen[id] = true
		}
	}
	require.Len(t, seen, 2000)
}

func TestTheLastSequenceIsCountedAsKafkaDoes(t *testing.T) {
	require.EqualValues(t, -1, lastSequence(0))
	require.EqualValues(t, 0, lastSequence(1<<31+1))
}
