package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// three replicas on the nodes of their number.
func three() Placement {
	return Placement{Founders: []uint64{1, 2, 3}, Replicas: []Replica{{ID: 1, Node: 1}, {ID: 2, Node: 2}, {ID: 3, Node: 3}}}
}

func TestAReplicaThatMovedLeavesWhenTheNewOneIsSettled(t *testing.T) {
	p := three()
	before := p
	require.True(t, p.Move(1, 4, 9))
	require.Equal(t, three(), before, "what others hold is not changed")
	voters, _ := p.Wanted()
	require.Equal(t, []uint64{9, 2, 3}, voters)
	require.ElementsMatch(t, []uint64{1, 2, 3}, p.Voters())
	require.False(t, p.Settled())
	r, here := p.On(1)
	require.True(t, here, "the old one is needed until the new one votes")
	require.Equal(t, uint64(1), r.ID)
	require.Equal(t, uint64(1), p.NodeOf(1))
	require.Equal(t, uint64(4), p.NodeOf(9))
	p.Settle()
	require.True(t, p.Settled())
	_, here = p.On(1)
	require.False(t, here)
	require.Zero(t, p.NodeOf(1))
}

func TestNothingMovesFromANodeWithoutAReplica(t *testing.T) {
	p := three()
	require.False(t, p.Move(5, 4, 9))
	require.True(t, p.Same(&Placement{Replicas: three().Replicas}))
}

func TestALostReplicaIsRenewedOnItsNode(t *testing.T) {
	p := three()
	require.True(t, p.Renew(2, 9))
	r, here := p.On(2)
	require.True(t, here)
	require.Equal(t, Replica{ID: 9, Node: 2, New: true}, r)
	require.Equal(t, []Replica{{ID: 2, Node: 2, Lost: true}}, p.Leaving)
	require.True(t, p.Survives())
	require.True(t, p.Renew(9, 10), "the new one is lost before it was a voter")
	require.Equal(t, []Replica{{ID: 2, Node: 2, Lost: true}}, p.Leaving, "nobody waits for it to leave")
	require.True(t, p.Survives())
	require.True(t, p.Renew(3, 11))
	require.False(t, p.Survives(), "two of three are lost")
	require.False(t, p.Renew(77, 12), "there is none such")
}

// Otherwise the node would make it again from nothing, without its votes.
func TestALostReplicaDoesNotComeBackWhenItsSuccessorMovesAway(t *testing.T) {
	p := three()
	require.True(t, p.Renew(1, 4))
	require.True(t, p.Move(1, 4, 5))
	r, here := p.On(1)
	require.True(t, here)
	require.Equal(t, uint64(4), r.ID)
	require.False(t, p.Renew(4, 6), "it leaves anyway")
	_, here = p.On(1)
	require.False(t, here)
}

func TestANodeDoesWhatThePlacementSays(t *testing.T) {
	p := three()
	none := func(uint64) bool { return false }
	all := func(uint64) bool { return true }
	rows := []struct {
		what    string
		hosted  uint64
		made    func(uint64) bool
		current bool
		due     Step
	}{
		{"it runs the right one", 1, all, false, Keep},
		{"it runs one that is not to be here", 7, all, false, Drop},
		{"it has the files", 0, all, false, Open},
		{"it begins", 0, none, true, Make},
		{"it may have dropped that one in an earlier life", 0, none, false, Wait},
	}
	for _, row := range rows {
		t.Run(row.what, func(t *testing.T) {
			due, r := p.Due(1, row.hosted, row.made, row.current)
			require.Equal(t, row.due, due)
			require.Equal(t, uint64(1), r.ID)
		})
	}
	due, _ := p.Due(4, 0, none, true)
	require.Equal(t, Keep, due)
	due, _ = p.Due(4, 1, all, true)
	require.Equal(t, Drop, due)
}

func TestANodeHostsWhatIsPlacedOnIt(t *testing.T) {
	s := members(2)
	s.placed("orders", 1, 1)
	s.placed("events", 1, 1)
	s.placed("cache", 1, 1)
	s.placed("elsewhere", 1, 2)
	cache := s.Logs["cache"]
	cache.Config.Durability = memoryDurability
	s.Logs["cache"] = cache
	orders, events := s.Logs["orders"], s.Logs["events"]
	steps := func(hosted map[string]Hosted, created bool, current bool) map[string]Step {
		steps := map[string]Step{}
		for _, a := range HostingDue(s, 1, hosted, func(_, _ uint64) bool { return created }, current) {
			steps[a.Name] = a.Step
		}
		return steps
	}
	require.Equal(t, map[string]Step{"orders": Open, "events": Open, "cache": Replace}, steps(nil, true, false))
	require.Equal(t, map[string]Step{"orders": Make, "events": Make, "cache": Make}, steps(nil, false, true))
	require.Empty(t, steps(nil, false, false), "what is known may be old")
	hosted := map[string]Hosted{
		"orders": {orders.ID, orders.Replicas[0].ID},
		"events": {events.ID, events.Replicas[0].ID + 100},
		"cache":  {cache.ID + 100, cache.Replicas[0].ID},
		"gone":   {99, 99},
	}
	require.Equal(t, map[string]Step{"events": Drop, "cache": Drop, "gone": Drop}, steps(hosted, true, true))
}

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

func TestANodeSpeaksForItsOwnReplicasOnly(t *testing.T) {
	p := three()
	require.True(t, p.Move(1, 4, 9))
	for _, row := range []struct {
		what          string
		replica, from uint64
		is            Sender
	}{
		{"its own", 2, 2, Placed},
		{"one that is leaving", 1, 1, Placed},
		{"one that has come", 9, 4, Placed},
		{"that of another", 2, 3, Forged},
		{"the new one in the old one's place", 9, 1, Forged},
		{"one that was removed", 5, 2, Forged},
		{"none", 0, 2, Forged},
		{"one given since", 10, 5, Newer},
	} {
		require.Equal(t, row.is, p.SenderOf(row.replica, row.from, 10), row.what)
	}
}
