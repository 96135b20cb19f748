package sequence

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// Where a node has used up its memory for sessions nothing new is remembered, but
// sessions that remember little continue; and room is freed without a request.
func TestMemoryThatIsUsedUpRefusesSessionsUntilThereIsRoom(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	batch := []record.Batch{batchOf(t, 1, 1)}
	send := func(id record.SessionID, epoch record.Epoch, first, lowWater record.Sequence, implicit bool) *record.Refusal {
		a := measured(&Append{Session: id, Epoch: epoch, First: first, LowWater: lowWater, Implicit: implicit, ExpectedEnd: NoExpectation, Batches: batch})
		return s.Append(a).Refusal
	}
	command := func(c record.Command) *record.Refusal { return s.Command(c).Refusal }
	for id := range record.SessionID(3) {
		require.Nil(t, command(record.Command{Kind: record.OpenSession, Session: id + 1, Lease: 1000}))
	}
	for i := range record.Sequence(MinSpansPerSession + 1) {
		require.Nil(t, send(1, 0, i, 0, false))
		require.Nil(t, send(2, 0, i, i, false))
		require.Nil(t, send(8, record.Epoch(i), 0, 0, true))
	}
	commitAll(t, s)
	before := s.table.Bytes()

	s.SetMemoryLeft(MemoryUsedUp)
	next := record.Sequence(MinSpansPerSession + 1)
	require.Equal(t, record.Busy, command(record.Command{Kind: record.OpenSession, Session: 9, Lease: 1000}).Reason)
	require.Equal(t, record.Busy, send(9, 0, 0, 0, true).Reason, "a new one of Kafka")
	require.Equal(t, record.Busy, send(1, 0, next, 0, false).Reason, "it remembers much")
	require.Nil(t, send(1, 0, next, next, false), "it forgets that")
	require.Nil(t, send(2, 0, next, next, false))
	require.Nil(t, send(2, 0, next, next, false), "a duplicate")
	require.Nil(t, send(3, 0, 0, 0, false))
	require.Nil(t, send(0, 0, 0, 0, false), "without a session")
	require.Nil(t, command(record.Command{Kind: record.CloseSession, Session: 3}))
	commitAll(t, s)
	require.Less(t, s.table.Bytes(), before)

	// Kafka's producers that are silent end, and all that have ended long ago are
	// forgotten.
	s.SetMemoryLeft(MemoryTight)
	require.Empty(t, s.Forgettable(EvictSilentMs-1), "what ended a moment ago can still be asked for")
	for now := int64(0); now <= EvictSilentMs+TickMs; now += TickMs {
		s.KeepSession(1, now)
		s.KeepSession(2, now)
		s.Tick(now)
	}
	require.Equal(t, []record.SessionID{8}, s.Expired())
	require.Nil(t, s.Expire(8).Refusal)
	commitAll(t, s)
	require.Equal(t, []record.SessionID{3, 8}, s.Forgettable(EvictSilentMs))
	require.Nil(t, command(record.Command{Kind: record.ForgetSession, Session: 3}))
	require.Equal(t, []record.SessionID{8}, s.Forgettable(EvictSilentMs), "the other is on its way")
	again := s.Command(record.Command{Kind: record.ForgetSession, Session: 3})
	require.True(t, again.Duplicate)
	require.Equal(t, record.SessionExpired, send(3, 0, 1, 0, false).Reason)
	require.Nil(t, command(record.Command{Kind: record.ForgetSession, Session: 8}))
	require.Nil(t, send(8, 100, 0, 0, true), "a producer that comes back meanwhile")
	require.True(t, s.Command(record.Command{Kind: record.ForgetSession, Session: 8}).Duplicate)
	commitAll(t, s)
	require.Equal(t, Forgotten, s.Resolve(3, 0, 0).State)
	require.Equal(t, Forgotten, s.Resolve(8, 64, 0).State)
	require.Equal(t, Committed, s.Resolve(8, 100, 0).State)
	require.Equal(t, record.SessionNotFound, send(3, 0, 1, 0, false).Reason)
	require.Zero(t, s.table.EndedSessions())
	require.True(t, s.Command(record.Command{Kind: record.ForgetSession, Session: 1}).Duplicate, "it is open")

	restored, err := RestoreTable(s.table.Snapshot(nil))
	require.NoError(t, err)
	require.Equal(t, s.table.Bytes(), restored.Bytes())
	for _, id := range []record.SessionID{1, 2, 8} {
		require.Nil(t, command(record.Command{Kind: record.CloseSession, Session: id}))
		commitAll(t, s)
		require.Nil(t, command(record.Command{Kind: record.ForgetSession, Session: id}))
		commitAll(t, s)
	}
	require.Zero(t, s.table.Bytes())
}

// A proposal that forgets a session is undone like any other.
func TestForgettingASessionIsUndone(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	require.Nil(t, s.Command(record.Command{Kind: record.OpenSession, Session: 1, Lease: 1000}).Refusal)
	require.Nil(t, s.Command(record.Command{Kind: record.CloseSession, Session: 1}).Refusal)
	commitAll(t, s)
	answer := s.Command(record.Command{Kind: record.ForgetSession, Session: 1})
	require.Nil(t, answer.Refusal)
	s.Drop(answer.RestsOn)
	require.NoError(t, s.CheckInvariants())
	s.SetMemoryLeft(MemoryTight)
	require.Equal(t, []record.SessionID{1}, s.Forgettable(EvictSilentMs))
}
