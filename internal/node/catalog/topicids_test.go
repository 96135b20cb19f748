package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
)

func TestIdsOfTopicsFollowTheChangesOfTheCatalog(t *testing.T) {
	id := func(log uint64) cluster.TopicID { return cluster.TopicIDOf("cluster", log) }
	c := &Catalog{Changes: &Changes{Options: Options{TopicID: id}}, state: cluster.NewState(), topics: topicIDs{known: map[cluster.TopicID]firstLog{}}}
	fold := func(change cluster.Change) {
		c.topics.fold(id, &c.state, &change)
		require.NoError(t, c.state.Fold(change))
		state := c.state.Clone()
		c.Shown.Store(&state)
	}
	names := func() map[uint64]string {
		found := map[uint64]string{}
		for log := range uint64(10) {
			if name, _, ok := c.TopicWithID(id(log)); ok {
				found[log] = name
			}
		}
		require.Len(t, c.topics.known, len(found), "nothing else is kept")
		return found
	}
	orders := cluster.Log{ID: 1, Name: "orders"}
	second := cluster.Log{ID: 2, Name: "orders/1", Config: cluster.Config{Topic: "orders", Partition: 1}}
	fold(cluster.Change{Put: []cluster.Log{orders, second, {ID: 3, Name: "other"}}})
	require.Equal(t, map[uint64]string{1: "orders", 3: "other"}, names(), "a partition has no id of its own")
	orders.Config.RetentionMs = 1
	fold(cluster.Change{Put: []cluster.Log{orders}})
	require.Equal(t, map[uint64]string{1: "orders", 3: "other"}, names())

	fold(cluster.Change{Delete: []string{"orders", "orders/1"}})
	require.Equal(t, map[uint64]string{3: "other"}, names())
	orders.ID = 4
	fold(cluster.Change{Put: []cluster.Log{orders}})
	require.Equal(t, map[uint64]string{3: "other", 4: "orders"}, names(), "another topic of that name")
	orders.ID = 5
	fold(cluster.Change{Put: []cluster.Log{orders}})
	require.Equal(t, map[uint64]string{3: "other", 5: "orders"}, names())

	whole := c.state.Checkpoint("x")
	delete(whole.Checkpoint.Logs, "other")
	fold(whole)
	require.Equal(t, map[uint64]string{5: "orders"}, names(), "a checkpoint replaces everything before")

	c.topics.known[id(9)] = firstLog{"orders", 9} // as where a newer change is about to be shown
	_, _, ok := c.TopicWithID(id(9))
	require.False(t, ok)
}
