package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicIdsDifferByClusterAndLogAndAreNoOptions(t *testing.T) {
	seen := map[TopicID]bool{}
	for _, cluster := range []string{"a", "b"} {
		for log := range uint64(1000) {
			id := TopicIDOf(cluster, log)
			require.Equal(t, id, TopicIDOf(cluster, log))
			require.False(t, seen[id])
			require.Less(t, id[0], byte(0x80))
			seen[id] = true
		}
	}
	require.Len(t, seen, 2000)
}
