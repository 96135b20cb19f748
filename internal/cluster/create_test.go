package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestWhatALogCannotBeCreatedFrom(t *testing.T) {
	all := func(uint64) bool { return true }
	s := members(2)
	s.placed("orders", 2, 1, 2)
	leaving := members(2)
	gone := leaving.Nodes[2]
	gone.Leaving = true
	leaving.Nodes[2] = gone
	rows := []struct {
		what   string
		state  *State
		log    NewLog
		reason record.Reason
	}{
		{"the name is taken", s, NewLog{Name: "orders"}, record.LogExists},
		{"an unknown node", s, NewLog{Name: "new", Nodes: []uint64{1, 9}}, record.NoNode},
		{"a node on its way out", leaving, NewLog{Name: "new", Nodes: []uint64{2}}, record.NoNode},
		{"one node twice", s, NewLog{Name: "new", Nodes: []uint64{1, 1}}, record.Invalid},
		{"no node", s, NewLog{Name: "new", Nodes: []uint64{}}, record.Invalid},
		{"a cluster whose first node is not in the catalog yet", members(0), NewLog{Name: "new"}, record.Busy},
	}
	for _, row := range rows {
		_, refusal := CreateLog(row.state, row.log, all)
		require.NotNil(t, refusal, row.what)
		require.Equal(t, row.reason, refusal.Reason, row.what)
	}
	l, refusal := CreateLog(s, NewLog{Name: "new", Nodes: []uint64{2}, Config: Config{Durability: memoryDurability}}, all)
	require.Nil(t, refusal)
	require.Equal(t, 1, l.Config.Replicas, "as many as were given")
	require.Positive(t, l.Ceiling, "a memory log has offsets reserved")
}

// One user creates logs until it is refused, another one still can.
func TestOnePrincipalLeavesHalfOfTheLogsToOthers(t *testing.T) {
	all := func(uint64) bool { return true }
	s := members(1)
	s.Level = creatorLevel
	create := func(name, creator string) *record.Refusal {
		l, refusal := CreateLog(s, NewLog{Name: name, Creator: creator}, all)
		if refusal == nil {
			s.put(l)
		}
		return refusal
	}
	for i := range MaxLogs/2 - 1 { // as create would, which takes longer
		name := fmt.Sprint("bobs-", i)
		s.Logs[name] = Log{Name: name, Creator: "user/bob"}
	}
	require.Nil(t, create("bobs-last", "user/bob"))
	refusal := create("bobs-too-many", "user/bob")
	require.Equal(t, record.TooLarge, refusal.Reason)
	require.Equal(t, "user/bob has created 5000 of the cluster's logs, and the remaining 5000 are reserved for others: delete logs, or have an administrator create this one", refusal.Detail)
	require.Nil(t, create("carols", "user/carol"))
	require.Equal(t, "user/carol", s.Logs["carols"].Creator)
	require.Nil(t, create("by-an-administrator", ""))
	_, refusal = CreatePartitions(s, NewPartitions{Topic: "topic", Until: 2, Creator: "user/bob"}, all)
	require.NotNil(t, refusal)

	c, refusal := DeleteLog(s, "bobs-7", 0)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	for i := range 2 { // those of carol and the administrator leave less
		c, refusal = DeleteLog(s, fmt.Sprint("bobs-", i), 0)
		require.Nil(t, refusal)
		require.NoError(t, s.Fold(c))
	}
	require.Nil(t, create("bobs-again", "user/bob"))

	s.Level = creatorLevel - 1
	require.NotNil(t, s.Logs["bobs-again"])
	require.Nil(t, create("before-the-level", "user/bob"))
	require.Empty(t, s.Logs["before-the-level"].Creator, "older nodes would not understand it")
}

func TestReconfigureKeepsWhatWasNotConfigured(t *testing.T) {
	s := members(3)
	s.placed("orders", 0, 1, 2, 3)
	l := s.Logs["orders"]
	l.Config = Config{MaxBatchBytes: 100, Settings: map[string]string{"a": "b"}, Topic: "t", Partition: 4}
	s.Logs["orders"] = l
	rows := []struct {
		what     string
		to, then Config
	}{
		{"nothing", Config{}, l.Config},
		{"a retention", Config{RetentionMs: 5}, Config{RetentionMs: 5, MaxBatchBytes: 100, Settings: l.Config.Settings, Topic: "t", Partition: 4}},
		{"as many replicas as it has by itself", Config{Replicas: 3}, l.Config},
		{"more replicas", Config{Replicas: 5}, Config{Replicas: 5, MaxBatchBytes: 100, Settings: l.Config.Settings, Topic: "t", Partition: 4}},
		{"other settings, and no largest batch", Config{Settings: map[string]string{}}, Config{Settings: map[string]string{}, Topic: "t", Partition: 4}},
	}
	for _, row := range rows {
		c, refusal := ReconfigureLog(s, "orders", 0, row.to)
		require.Nil(t, refusal, row.what)
		row.then.Revision = l.Config.Revision + 1
		require.Equal(t, row.then, c.Put[0].Config, row.what)
	}
	_, refusal := ReconfigureLog(s, "orders", 0, Config{Durability: memoryDurability})
	require.Equal(t, record.Invalid, refusal.Reason)
	_, refusal = ReconfigureLog(s, "nothing", 0, Config{})
	require.Equal(t, record.LogNotFound, refusal.Reason)
	_, refusal = ReconfigureLog(s, "orders", l.ID+1, Config{})
	require.Equal(t, record.NotLeader, refusal.Reason, "the caller knows a newer one")
}

func TestPartitionsComeAndGoTogether(t *testing.T) {
	all := func(uint64) bool { return true }
	s := members(3)
	c, refusal := CreatePartitions(s, NewPartitions{Topic: "t", Until: 2, Config: Config{Replicas: 1}}, all)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	c, refusal = CreatePartitions(s, NewPartitions{Topic: "t", From: 2, Until: 4, Config: Config{Replicas: 3}}, all)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	ids := map[uint64]bool{}
	for p := range int32(4) {
		l := s.Logs[PartitionLog("t", p)]
		ids[l.ID] = true
		require.Len(t, l.Replicas, 1, "as the first was configured")
		require.Equal(t, p, l.Config.Partition)
	}
	require.Len(t, ids, 4)
	_, refusal = DeleteLog(s, "t", 0)
	require.Equal(t, record.Invalid, refusal.Reason, "the numbers would have a gap")
	c, refusal = DeleteTopic(s, "t")
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(c))
	require.Empty(t, s.Logs)
	_, refusal = CreatePartitions(s, NewPartitions{Topic: "t", From: 4, Until: 5}, all)
	require.Equal(t, record.LogNotFound, refusal.Reason)
}

// Of two changes of one configuration the later one is refused; the same one again, after
// a lost answer, is not.
func TestAChangeOfAnOlderConfigurationIsRefused(t *testing.T) {
	s := members(3)
	created, refusal := CreatePartitions(s, NewPartitions{Topic: "orders", Until: 2}, func(uint64) bool { return true })
	require.Nil(t, refusal)
	for _, l := range created.Put {
		require.EqualValues(t, 1, l.Config.Revision)
		s.put(l)
	}
	mine, yours := s.Logs["orders"].Config, s.Logs["orders"].Config
	mine.RetentionMs, yours.RetentionBytes = 5, 7
	for range 2 {
		c, refusal := ReconfigureLog(s, "orders", 0, mine)
		require.Nil(t, refusal)
		s.put(c.Put[0])
		require.EqualValues(t, 2, s.Logs["orders"].Config.Revision)
	}
	_, refusal = ReconfigureLog(s, "orders", 0, yours)
	require.Equal(t, record.Precondition, refusal.Reason)
	_, refusal = ReconfigureTopic(s, "orders", yours)
	require.Equal(t, record.Precondition, refusal.Reason)
	yours.Revision = 2
	c, refusal := ReconfigureTopic(s, "orders", yours)
	require.Nil(t, refusal)
	for i, revision := range []uint64{3, 2} {
		require.EqualValues(t, 7, c.Put[i].Config.RetentionBytes)
		require.EqualValues(t, revision, c.Put[i].Config.Revision)
		require.EqualValues(t, i, c.Put[i].Config.Partition)
	}
	yours.Revision = 0
	_, refusal = ReconfigureLog(s, "orders", 0, yours)
	require.Nil(t, refusal, "whichever there is")
}
