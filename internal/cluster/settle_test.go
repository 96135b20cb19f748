package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALogSettlesOnlyAsItWasActedOn(t *testing.T) {
	s := members(4)
	s.placed("orders", 3, 1, 2, 3)
	moved := s.Logs["orders"]
	require.True(t, moved.Move(1, 4, s.NextReplica))
	require.NoError(t, s.Fold(Change{Put: []Log{moved}}))
	done := Settle(s, &moved)
	require.Len(t, done.Put, 1)
	require.True(t, done.Put[0].Settled())

	again := moved
	require.True(t, again.Move(2, 1, s.NextReplica))
	require.NoError(t, s.Fold(Change{Put: []Log{again}}))
	c := Settle(s, &moved)
	require.True(t, c.Empty(), "it has changed meanwhile")
	require.NoError(t, s.Fold(Change{Delete: []string{"orders"}}))
	c = Settle(s, &again)
	require.True(t, c.Empty(), "it was deleted meanwhile")
}

func TestANodeOnItsWayOutIsRetiredWhenItHoldsNothing(t *testing.T) {
	s := voting(3)
	s.placed("orders", 1, 3)
	n := s.Nodes[3]
	n.Leaving, n.Votes = true, false
	s.Nodes[3] = n
	c := Retire(s)
	require.True(t, c.Empty(), "it holds a replica")
	require.True(t, s.Leaving())
	delete(s.Logs, "orders")
	require.NoError(t, s.Fold(Retire(s)))
	require.Len(t, s.Nodes, 2)
	require.False(t, s.Leaving())
}
