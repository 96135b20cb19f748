package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

// left is a replica on a disk.
func left(log, id, lastTerm, last uint64, end record.Offset, voters ...uint64) RemainingReplica {
	return RemainingReplica{Log: log, ID: id, Term: lastTerm, Last: last, LastTerm: lastTerm, End: end, Committed: end - 1, Voters: voters}
}

// survivors are the remains of nodes of a cluster with a state, each with a replica of the catalog.
func survivors(s *State, nodes ...uint64) (all []Remains) {
	for _, id := range nodes {
		state := s.Clone()
		all = append(all, Remains{
			Cluster: "OLD", Node: id, Name: fmt.Sprint("node", id), Taken: int64(1000 + id), Nonce: fmt.Sprint(id), Catalog: &state,
			Replicas: []RemainingReplica{left(CatalogID, id, 3, 30, 20, 1, 2, 3)},
		})
	}
	return all
}

func TestALogContinuesFromTheMostCompleteSurvivor(t *testing.T) {
	s := members(5)
	s.placed("orders", 5, 1, 2, 3, 4, 5) // replicas 6 to 10
	voters := []uint64{6, 7, 8, 9, 10}
	rows := []struct {
		what     string
		first    RemainingReplica // on node 1
		second   RemainingReplica // on node 2
		from     uint64
		majority bool
		keep     []uint64
	}{
		{"the longer of one term", left(1, 6, 4, 50, 100, voters...), left(1, 7, 4, 51, 101, voters...), 7, false, []uint64{7, 6}},
		{"the newer term, although it is shorter", left(1, 6, 5, 40, 90, voters...), left(1, 7, 4, 51, 101, voters...), 6, false, []uint64{6, 7}},
		{"one that is no member any more is left out", left(1, 6, 5, 40, 90, 6, 8, 9), left(1, 7, 4, 51, 101, voters...), 6, false, []uint64{6}},
		{"damage is left out", RemainingReplica{Log: 1, ID: 6, Problem: "damaged"}, left(1, 7, 4, 51, 101, voters...), 7, false, []uint64{7}},
		{"a majority is left", left(1, 6, 5, 40, 90, 6, 7, 8), left(1, 7, 5, 39, 89, 6, 7, 8), 6, true, []uint64{6, 7}},
	}
	for _, row := range rows {
		all := survivors(s, 1, 2)
		all[0].Replicas, all[1].Replicas = append(all[0].Replicas, row.first), append(all[1].Replicas, row.second)
		all[0].Replicas[0].Voters, all[1].Replicas[0].Voters = []uint64{1, 2, 3, 4, 5}, []uint64{1, 2, 3, 4, 5}
		plan, err := PlanRecovery(all)
		require.NoError(t, err, row.what)
		require.Len(t, plan.Logs, 2)
		l := plan.Logs[1]
		require.Equal(t, row.from, l.Survivors[0].ID, row.what)
		require.Equal(t, row.keep, l.Keep(), row.what)
		require.Equal(t, row.majority, l.Majority, row.what)
		require.Equal(t, row.majority, l.Term == 0, "%s: a majority needs nothing written", row.what)
		after := plan.State.Logs["orders"]
		require.Len(t, after.Replicas, len(row.keep), row.what)
		require.Empty(t, after.Leaving)
		require.Equal(t, 5, WantedReplicas(&plan.State, &after), "it wants as many as before")
		require.Len(t, plan.State.Nodes, 2)
		require.Equal(t, map[uint64]string{3: "node3", 4: "node4", 5: "node5"}, plan.State.Gone)
		require.NotEqual(t, plan.Was, plan.Cluster)
	}
}

// A log moves to a replica that is left, which has the change that leaves the joint configuration and
// does not know that it has committed: started again it would wait for the vote of one that is lost.
func TestALogThatCannotElectByWhatItKnowsIsContinued(t *testing.T) {
	s := members(3)
	s.placed("orders", 1, 1, 2)
	all := survivors(s, 1, 2)
	r := left(1, 5, 2, 10, 9, 5)
	r.InForce, r.OutgoingInForce = []uint64{5}, []uint64{4}
	all[1].Replicas = append(all[1].Replicas, r)
	plan, err := PlanRecovery(all)
	require.NoError(t, err)
	l := plan.Logs[1]
	require.True(t, l.Majority, "nothing is lost")
	require.NotZero(t, l.Term)

	all[1].Replicas[1].OutgoingInForce = nil
	_, err = PlanRecovery(all)
	require.ErrorIs(t, err, ErrNothingLost)
}

// Nodes that have no file in common come to the same plan, however their remains are ordered and travel.
func TestAPlanIsAFunctionOfTheRemains(t *testing.T) {
	s := members(3)
	all := survivors(s, 1)
	again := survivors(s, 1)
	one, err := PlanRecovery(all)
	require.NoError(t, err)
	data, err := json.Marshal(again)
	require.NoError(t, err)
	var travelled []Remains
	require.NoError(t, json.Unmarshal(data, &travelled))
	require.True(t, all[0].Same(travelled[0]))
	two, err := PlanRecovery(travelled)
	require.NoError(t, err)
	require.Equal(t, one.Cluster, two.Cluster)
	travelled[0].Nonce = "another"
	require.True(t, all[0].Same(travelled[0]), "only what the node has counts")
	three, err := PlanRecovery(travelled)
	require.NoError(t, err)
	require.NotEqual(t, one.Cluster, three.Cluster, "two recoveries make two clusters")
	travelled[0].Replicas[0].Last++
	require.False(t, all[0].Same(travelled[0]))
}

func TestWhatARecoveryLeaves(t *testing.T) {
	s := members(3)
	s.placed("here", 1, 1)  // replica 4 of log 1
	s.placed("there", 1, 2) // 5 of log 2
	memory, refusal := CreateLog(s, NewLog{Name: "memory", Config: Config{Durability: memoryDurability}, Nodes: []uint64{1, 2, 3}}, func(uint64) bool { return true })
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(Change{Put: []Log{memory}}))
	all := survivors(s, 1)
	all[0].Replicas = append(all[0].Replicas, left(1, 4, 2, 10, 9, 4), left(9, 77, 2, 10, 9, 77))
	plan, err := PlanRecovery(all)
	require.NoError(t, err)
	byName := map[string]LogRecovery{}
	for _, l := range plan.Logs {
		byName[l.Name] = l
	}
	require.Zero(t, byName["here"].Term, "nobody is lost, nothing is written")
	require.True(t, byName["here"].Majority)
	require.Empty(t, byName["there"].Survivors)
	require.Contains(t, plan.State.Logs, "there", "its name is not free before somebody deletes it")
	require.True(t, byName["memory"].Memory)
	after := plan.State.Logs["memory"]
	require.GreaterOrEqual(t, int64(after.Lost), memory.Ceiling, "no offset is given twice")
	require.Len(t, after.Replicas, 1)
	require.Greater(t, after.Replicas[0].ID, uint64(77), "no id is given twice")
	require.Equal(t, []UnusedReplica{{1, 9, 77, "the surviving catalog has no such log"}}, plan.Unused)
	require.Greater(t, plan.State.NextLog, uint64(9))
	require.True(t, plan.State.Nodes[1].Votes)
}

// The lost nodes may have made changes that the others have not heard of: whoever read one of those must not
// change what stands here under the same revision.
func TestNoRevisionIsGivenTwiceByARecovery(t *testing.T) {
	s := members(3)
	s.placed("here", 1, 1)  // replica 4 of log 1
	s.placed("there", 1, 2) // 5 of log 2, of which nothing is left
	memory, refusal := CreateLog(s, NewLog{Name: "memory", Config: Config{Durability: memoryDurability}, Nodes: []uint64{1, 2, 3}}, func(uint64) bool { return true })
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(Change{Put: []Log{memory}, Access: &access.Change{Enforce: new(false), Users: []access.User{{Name: "ada"}}}}))
	all := survivors(s, 1)
	all[0].Replicas = append(all[0].Replicas, left(1, 4, 2, 10, 9, 4))
	plan, err := PlanRecovery(all)
	require.NoError(t, err)
	const changes = 1000 // of the lost
	for name, before := range s.Logs {
		lost := before.Config
		lost.Revision += changes
		after := plan.State.Logs[name].Config
		require.Greater(t, after.Revision, lost.Revision, name)
		for range changes { // here, after the recovery
			after.Revision = 0
			change, refusal := ReconfigureLog(&plan.State, name, 0, after)
			require.Nil(t, refusal, name)
			require.NoError(t, plan.State.Fold(change))
		}
		_, refusal := ReconfigureLog(&plan.State, name, 0, lost)
		require.NotNil(t, refusal, name)
		require.Equal(t, record.Precondition, refusal.Reason, name)
	}
	require.Greater(t, plan.State.Access.Revision, s.Access.Revision+changes)
}

func TestWhatCannotBeRecovered(t *testing.T) {
	s := members(3)
	other := survivors(s, 2)
	other[0].Cluster = "OTHER"
	blind := survivors(s, 1)
	blind[0].Catalog = nil
	unknown := survivors(s, 1)
	unknown[0].Node = 9
	for _, row := range []struct {
		remains []Remains
		says    string
	}{
		{nil, "no node survives"},
		{append(survivors(s, 1), other...), "belongs to cluster"},
		{append(survivors(s, 1), survivors(s, 1)...), "twice"},
		{blind, "no intact replica of the catalog"},
		{unknown, "does not contain node"},
		{survivors(s, 1, 2), ErrNothingLost.Error()},
	} {
		_, err := PlanRecovery(row.remains)
		require.ErrorContains(t, err, row.says)
	}
}

func TestAReadReplicaThatSurvivesStaysOne(t *testing.T) {
	s := members(3)
	s.placed("orders", 2, 1, 3) // replicas 4 and 5
	l := s.Logs["orders"]
	l.Readers = []Replica{{ID: 6, Node: 2, Reader: true}}
	require.NoError(t, s.Fold(Change{Put: []Log{l}}))
	all := survivors(s, 1, 2)
	for i, id := range []uint64{4, 6} {
		r := left(1, id, 3, 10, 9, 4, 5)
		r.Learners = []uint64{6}
		all[i].Replicas = append(all[i].Replicas, r)
	}
	plan, err := PlanRecovery(all)
	require.NoError(t, err)
	after := plan.State.Logs["orders"]
	require.Equal(t, []Replica{{ID: 4, Node: 1}}, after.Replicas)
	require.Equal(t, l.Readers, after.Readers)
}

// The catalog is written anew on one node. The others must not elect a leader among themselves before
// that one is there: what they acknowledged would be contradicted.
func TestOthersThatCouldElectALeaderOfTheCatalogAreLeftOut(t *testing.T) {
	for lost, alone := range map[int]bool{1: true, 2: false} { // of five that vote
		s := members(5)
		s.placed("there", 1, 5) // nothing is left of it
		all := survivors(s, []uint64{1, 2, 3, 4}[:5-lost]...)
		for i := range all {
			all[i].Replicas[0].Voters = []uint64{1, 2, 3, 4, 5}
		}
		all[1].Replicas[0].Last++
		plan, err := PlanRecovery(all)
		require.NoError(t, err)
		catalog := plan.Logs[0]
		require.True(t, catalog.Majority)
		require.EqualValues(t, 2, catalog.Survivors[0].ID)
		require.NotZero(t, catalog.Term)
		require.True(t, plan.State.Nodes[2].Votes)
		if alone {
			require.Equal(t, []uint64{2}, catalog.Keep())
			require.Len(t, plan.Unused, 3)
			require.False(t, plan.State.Nodes[1].Votes, "it gets another replica first")
		} else {
			require.Len(t, catalog.Keep(), 3, "two of five elect nobody")
			require.Empty(t, plan.Unused)
			require.True(t, plan.State.Nodes[1].Votes)
		}
	}
}

// A log of 6, 7, 8 moves to 6, 9, 10 in one joint change, which 6, 7 and 8 have and do not know to be
// committed. Started again, 7 and 8 are a majority of those that they begin with.
func TestOthersThatElectByTheConfigurationTheyBeginWithAreLeftOut(t *testing.T) {
	s := members(5)
	s.placed("orders", 5, 1, 2, 3, 4, 5) // replicas 6 to 10
	for _, row := range []struct {
		inForce, outgoing []uint64
		keep              []uint64
	}{
		{[]uint64{6, 7, 8}, nil, []uint64{6}},
		{[]uint64{6, 7, 8}, []uint64{6, 7, 8}, []uint64{6}},
		{[]uint64{6, 7, 8}, []uint64{6, 9, 10}, []uint64{6, 7, 8}},
		{[]uint64{6, 7, 8, 9}, nil, []uint64{6, 7, 8}},
		{nil, nil, []uint64{6, 7, 8}}, // a release that does not say it
	} {
		all := survivors(s, 1, 2, 3)
		for i := range all {
			r := left(1, uint64(6+i), 3, 50, 100, 6, 9, 10)
			r.Outgoing, r.InForce, r.OutgoingInForce = []uint64{6, 7, 8}, row.inForce, row.outgoing
			all[i].Replicas = append(all[i].Replicas, r)
		}
		plan, err := PlanRecovery(all)
		require.NoError(t, err)
		l := plan.Logs[1]
		require.False(t, l.Majority)
		require.NotZero(t, l.Term)
		require.Equal(t, row.keep, l.Keep(), "%v", row)
		require.Len(t, plan.State.Logs["orders"].Replicas, len(row.keep))
	}
}

// A majority of a log elects a leader itself, which a learner with a longer log is not.
func TestALogWithAMajorityContinuesByItself(t *testing.T) {
	s := members(3)
	s.placed("orders", 2, 1, 2) // replicas 4 and 5
	s.placed("there", 1, 3)
	l := s.Logs["orders"]
	l.Readers = []Replica{{ID: 9, Node: 2, Reader: true}}
	require.NoError(t, s.Fold(Change{Put: []Log{l}}))
	all := survivors(s, 1, 2)
	for i, id := range []uint64{4, 5, 9} {
		r := left(1, id, 3, 10+uint64(i), 9+record.Offset(i), 4, 5)
		r.Learners = []uint64{9}
		all[i%2].Replicas = append(all[i%2].Replicas, r)
	}
	plan, err := PlanRecovery(all)
	require.NoError(t, err)
	orders := plan.Logs[1]
	require.True(t, orders.Majority)
	require.Zero(t, orders.Term, "nothing is written")
	require.Equal(t, []uint64{5, 9, 4}, orders.Keep())
	require.EqualValues(t, 10, orders.End)
	after := plan.State.Logs["orders"]
	require.Equal(t, []Replica{{ID: 5, Node: 2}, {ID: 4, Node: 1}}, after.Replicas)
	require.Equal(t, l.Readers, after.Readers)
}
