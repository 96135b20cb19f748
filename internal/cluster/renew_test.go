package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestALostReplicaIsRenewedWhileAMajorityRemembers(t *testing.T) {
	s := members(3)
	s.placed("orders", 3, 1, 2, 3)
	s.placed("elsewhere", 2, 2, 3)
	l := s.Logs["orders"]
	lost := l.Replicas[0].ID
	out := RenewReplicas(s, 1, map[uint64]bool{lost: true, s.Logs["elsewhere"].Replicas[0].ID: true})
	require.False(t, out.Waiting)
	require.Empty(t, out.Memory)
	require.Len(t, out.Change.Put, 1, "only what is on the node")
	require.Equal(t, s.NextReplica, out.Change.Put[0].Replicas[0].ID)
	require.True(t, out.Change.Put[0].Leaving[0].Lost)

	require.NoError(t, s.Fold(out.Change))
	second := s.Logs["orders"].Replicas[1].ID
	require.False(t, s.Logs["orders"].SurvivesWithout(second))
	out = RenewReplicas(s, 2, map[uint64]bool{second: true})
	require.True(t, out.Waiting, "two of three have forgotten")
	require.True(t, out.Change.Empty())
	require.False(t, s.Logs["orders"].Replicas[1].Lost, "what was decided about is not changed")
}

func TestALostReplicaInMemoryIsRenewedWhoeverRemembers(t *testing.T) {
	s := members(1)
	s.placed("cache", 1, 1)
	l := s.Logs["cache"]
	l.Config.Durability = memoryDurability
	s.Logs["cache"] = l
	out := RenewReplicas(s, 1, map[uint64]bool{l.Replicas[0].ID: true})
	require.Equal(t, []uint64{l.Replicas[0].ID}, out.Memory)
	require.Len(t, out.Change.Put, 1)
}

func TestALostReplicaOfTheCatalogIsRenewedOnce(t *testing.T) {
	s := members(2)
	node, c, fresh, refusal := RenewCatalog(s, 2, "node2", 2)
	require.Nil(t, refusal)
	require.True(t, fresh)
	require.Equal(t, s.NextReplica, node.Catalog)
	require.NoError(t, s.Fold(c))
	again, c, fresh, refusal := RenewCatalog(s, 2, "node2", 2)
	require.Nil(t, refusal)
	require.False(t, fresh, "the answer was lost, not the replica")
	require.Equal(t, node, again)
	require.True(t, c.Empty())
	_, _, _, refusal = RenewCatalog(s, 2, "other", 2)
	require.Equal(t, record.NoNode, refusal.Reason)
}
