package fetchsession

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
)

var begun = time.Unix(1_000_000, 0)

func partitions(from, until int32) (all []Partition) {
	for n := from; n < until; n++ {
		all = append(all, Partition{Key: Key{Topic: "orders", Number: n}, Epoch: -1, MaxBytes: 1})
	}
	return all
}

func numbers(s *Session) (all []int32) {
	for _, e := range s.Entries() {
		all = append(all, e.Number)
	}
	return all
}

func TestOnlyWhatChangedIsAnswered(t *testing.T) {
	s := NewSessions(budget.NewShares(1<<20)).Begin(7, false, partitions(0, 1), "alice", begun)
	e := s.Entries()[0]
	require.True(t, e.Changed(Answer{}), "the first answer has each partition")
	require.False(t, e.Changed(Answer{}))
	require.True(t, e.Changed(Answer{End: 1}))
	require.False(t, e.Changed(Answer{End: 1}))
	require.True(t, e.Changed(Answer{End: 1, Bytes: 10}), "records")
	require.True(t, e.Changed(Answer{Start: 1, End: 1}), "trimmed")
	require.True(t, e.Changed(Answer{Start: 1, End: 1, Redirected: true}))
	require.True(t, e.Changed(Answer{Start: -1, End: -1, Failed: true}))
	require.True(t, e.Changed(Answer{Start: -1, End: -1, Failed: true}), "an error each time")
	require.True(t, e.Changed(Answer{Start: 1, End: 1}), "that the error is over")
	require.False(t, e.Changed(Answer{Start: 1, End: 1}))
}

func TestAPartitionWithRecordsHasItsNextTurnBehindTheOthers(t *testing.T) {
	s := NewSessions(budget.NewShares(1<<20)).Begin(7, false, partitions(0, 4), "alice", begun)
	s.Entries()[0].Changed(Answer{Bytes: 1})
	s.Entries()[2].Changed(Answer{Bytes: 1})
	s.Turn()
	require.Equal(t, []int32{1, 3, 0, 2}, numbers(s))
	s.Turn()
	require.Equal(t, []int32{1, 3, 0, 2}, numbers(s))
}

func TestPartitionsAreAddedChangedAndForgotten(t *testing.T) {
	memory := budget.NewShares(1 << 20)
	all := NewSessions(memory)
	s := all.Begin(7, false, partitions(0, 3), "alice", begun)
	more := partitions(3, 4)
	changed := partitions(1, 2)[0]
	changed.Offset = 12
	require.True(t, all.Apply(s, append(more, changed), []Key{{Topic: "orders", Number: 0}, {Topic: "none"}}, begun))
	require.Equal(t, []int32{1, 2, 3}, numbers(s))
	require.EqualValues(t, 12, s.Entries()[0].Offset)
	require.Equal(t, BytesOf(partitions(1, 4)), memory.Used())
	require.Equal(t, 5, s.Count(partitions(2, 6)))
	all.End(s)
	all.End(s)
	require.Zero(t, memory.Used())
	require.Empty(t, all.held)
}

// Maps and lists do not shrink by themselves.
func TestWhatIsForgottenTakesNoMemory(t *testing.T) {
	all := NewSessions(budget.NewShares(1 << 30))
	s := all.Begin(7, false, partitions(0, 1), "alice", begun)
	many := partitions(1, 10_000)
	var keys []Key
	for i := range many {
		keys = append(keys, many[i].Key)
	}
	require.True(t, all.Apply(s, many, nil, begun))
	large := s.known
	require.True(t, all.Apply(s, nil, keys, begun))
	require.Equal(t, []int32{0}, numbers(s))
	require.LessOrEqual(t, cap(s.inOrder), 8)
	require.NotEqual(t, reflect.ValueOf(large).Pointer(), reflect.ValueOf(s.known).Pointer())
	require.Len(t, s.known, 1)
}

func TestEpochsOfRequestsFollowEachOther(t *testing.T) {
	s := newSession(7, false, nil)
	require.False(t, s.Next(0))
	require.False(t, s.Next(2))
	require.True(t, s.Next(1))
	require.False(t, s.Next(1))
	require.True(t, s.Next(2))
	s.epoch = 1<<31 - 1
	require.True(t, s.Next(1<<31-1))
	require.True(t, s.Next(1), "after the largest comes 1: 0 begins a session")
}

func TestOneHolderLeavesMemoryForOthersAndUnusedSessionsEnd(t *testing.T) {
	one := partitions(0, 1)
	size := BytesOf(one)
	memory := budget.NewShares(10 * size)
	all := NewSessions(memory)
	var own []*Session
	for i := range 5 {
		s := all.Begin(1, false, one, "mallory", begun)
		require.NotNil(t, s, i)
		own = append(own, s)
	}
	require.Nil(t, all.Begin(1, false, one, "mallory", begun), "half of all")
	require.NotNil(t, all.Begin(1, false, one, "alice", begun), "the other half is for others")

	all.Leave(own[1], begun)
	all.Leave(own[0], begun.Add(time.Second))
	require.Nil(t, all.Begin(1, false, one, "mallory", begun.Add(idleTime-1)))
	require.NotNil(t, all.Begin(1, false, one, "mallory", begun.Add(idleTime)))
	require.False(t, all.Use(own[1]), "the longest unused has ended")
	require.True(t, all.Use(own[0]))
	require.True(t, all.Use(own[2]), "one in use has not")

	require.False(t, all.Apply(own[2], partitions(1, 9), nil, begun), "no room to grow: it ends")
	require.False(t, all.Use(own[2]))
	require.Empty(t, own[2].Entries(), "it keeps no memory either")
	require.Empty(t, own[2].known)
	for _, s := range own {
		all.End(s)
	}
	require.Equal(t, 2*size, memory.Used(), fmt.Sprint(all.held))
}
