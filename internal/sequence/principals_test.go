package sequence

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// asked opens sessions of principals.
type asked struct {
	*Sequencer
	ids record.SessionID
}

func newAsked(t *Table, n NodePrincipals) *asked {
	s := New(t)
	s.CountPrincipals(n)
	s.StartLeading(1, 0)
	return &asked{Sequencer: s, ids: MaxOpenSessions}
}

func (s *asked) open(principal uint32) (record.SessionID, *record.Refusal) {
	s.ids++
	id := s.ids.WithPrincipal(principal)
	return id, s.Command(record.Command{Kind: record.OpenSession, Session: id, Lease: 1000}).Refusal
}

const bob, carol = 7, 8

// One user opens sessions until it is refused, others still can.
func TestOnePrincipalLeavesHalfOfTheSessionsOfALogToOthers(t *testing.T) {
	table := NewTable()
	for id := record.SessionID(1); id < MaxOpenSessions/2; id++ { // as commands would, which take longer
		table.openSession(id.WithPrincipal(bob), 1000, false)
	}
	s := newAsked(table, nil)
	_, refusal := s.open(bob)
	require.Nil(t, refusal)
	_, refusal = s.open(bob)
	require.NotNil(t, refusal)
	require.Equal(t, record.Busy, refusal.Reason)
	require.True(t, refusal.OwnShare)
	require.Equal(t, "the caller has 50000 open sessions in this log, and the remaining 50000 are reserved for others: close unused sessions, or try again when some have ended", refusal.Detail)
	s.ids++
	refusal = s.Append(request(t, Append{Session: s.ids.WithPrincipal(bob), Implicit: true})).Refusal
	require.NotNil(t, refusal, "a Kafka producer of the same user")
	_, refusal = s.open(carol)
	require.Nil(t, refusal)
	s.ids++
	require.Nil(t, s.Append(request(t, Append{Session: s.ids.WithPrincipal(carol), Implicit: true})).Refusal)
	_, refusal = s.open(0)
	require.Nil(t, refusal, "as sessions are where rights are not enforced")

	for id := record.SessionID(1).WithPrincipal(bob); id < record.SessionID(5).WithPrincipal(bob); id++ { // those of the others leave less, too
		require.Nil(t, s.Command(record.Command{Kind: record.CloseSession, Session: id}).Refusal)
	}
	_, refusal = s.open(bob)
	require.Nil(t, refusal)
}

// What is counted is what is open, and what memory the log has for it until it is forgotten, whatever became of
// proposals and of leadership.
func TestOpenSessionsAreCountedByWhoseTheyAre(t *testing.T) {
	node := fakePrincipals{}
	s := newAsked(NewTable(), node)
	first, _ := s.open(bob)
	_, _ = s.open(carol)
	commitAll(t, s.Sequencer)
	require.Equal(t, fakePrincipals{bob: bytesOfSession, carol: bytesOfSession}, node)
	_, _ = s.open(bob)
	s.Command(record.Command{Kind: record.CloseSession, Session: first})
	require.Equal(t, fakePrincipals{bob: 2 * bytesOfSession, carol: bytesOfSession}, node, "one more, and one that ends, in flight")
	require.Equal(t, map[uint32]int{bob: 1, carol: 1}, s.principals.open)
	s.Drop(s.newest())
	require.Equal(t, map[uint32]int{bob: 2, carol: 1}, s.principals.open)
	require.Equal(t, fakePrincipals{bob: 2 * bytesOfSession, carol: bytesOfSession}, node)
	s.StopLeading()
	require.Empty(t, node)
	s.StartLeading(2, 0)
	require.Equal(t, fakePrincipals{bob: bytesOfSession, carol: bytesOfSession}, node, "as the table has it")

	for now := int64(0); now <= 2000; now += TickMs {
		s.Tick(now)
	}
	for _, id := range s.Expired() {
		require.Nil(t, s.Expire(id).Refusal)
	}
	commitAll(t, s.Sequencer)
	require.Empty(t, s.principals.open)
	require.Equal(t, fakePrincipals{bob: bytesOfSession, carol: bytesOfSession}, node, "they can still be asked for")

	s.ids++
	producer := s.ids.WithPrincipal(bob)
	for epoch := range record.Epoch(2) {
		require.Nil(t, s.Append(request(t, Append{Session: producer, Epoch: epoch, Implicit: true})).Refusal)
		commitAll(t, s.Sequencer)
		require.Nil(t, s.Command(record.Command{Kind: record.ExpireSession, Session: producer}).Refusal)
		commitAll(t, s.Sequencer)
	}
	require.Equal(t, s.table.Bytes(), node[bob]+node[carol], "one that begins again is no second one")
	s.table.sessions.byID.Scan(func(id record.SessionID, _ *session) bool {
		s.Command(record.Command{Kind: record.ForgetSession, Session: id})
		return true
	})
	commitAll(t, s.Sequencer)
	require.Empty(t, node)
}

// What sessions remember is counted by whose they are: a user whose sessions remember more than its share appends on to
// those that remember little, and to those whose mark it raises. All others continue.
func TestOnePrincipalIsRefusedWhatItsSessionsRemember(t *testing.T) {
	node := fakePrincipals{}
	s := newAsked(NewTable(), node)
	sessions := map[uint32]record.SessionID{}
	next := map[record.SessionID]record.Sequence{}
	for _, principal := range []uint32{bob, carol, 0} {
		sessions[principal], _ = s.open(principal)
	}
	few, _ := s.open(bob)
	batch := []record.Batch{batchOf(t, 1, 1)}
	send := func(id record.SessionID, lowWater record.Sequence) *record.Refusal {
		refusal := s.Append(measured(&Append{Session: id, First: next[id], LowWater: lowWater, ExpectedEnd: NoExpectation, Batches: batch})).Refusal
		if refusal == nil {
			next[id]++
		}
		return refusal
	}
	const runs = MinSpansPerSession + 10
	for range runs {
		for _, principal := range []uint32{bob, carol, 0} { // in turn, so that each append is a run of its own
			require.Nil(t, send(sessions[principal], 0))
		}
	}
	require.Nil(t, send(few, 0))
	commitAll(t, s.Sequencer)
	require.Equal(t, fakePrincipals{bob: 2*bytesOfSession + (runs+1)*bytesOfSpan, carol: bytesOfSession + runs*bytesOfSpan}, node)

	node[bob] += crowds * bytesOfSession
	refusal := send(sessions[bob], 0)
	require.NotNil(t, refusal)
	require.Equal(t, record.Busy, refusal.Reason)
	require.Contains(t, refusal.Detail, "use more of the node's memory for sessions than its share")
	for _, id := range []record.SessionID{few, sessions[carol], sessions[0]} {
		require.Nil(t, send(id, 0))
	}
	require.Nil(t, send(sessions[bob], next[sessions[bob]]), "it forgets what was answered")
	node[bob] -= crowds * bytesOfSession
	commitAll(t, s.Sequencer)
	require.Equal(t, int64(2*bytesOfSession+2*bytesOfSpan), node[bob])

	counted := maps.Clone(node)
	copied := s.table.Copy()
	s.StopLeading()
	require.Empty(t, node)
	s.StartLeading(2, 0)
	require.Equal(t, counted, node, "as the table has it")
	require.Nil(t, copied.sessions.takes, "another goroutine changes it")
	for _, id := range []record.SessionID{few, sessions[bob]} {
		require.Nil(t, s.Command(record.Command{Kind: record.CloseSession, Session: id}).Refusal)
		commitAll(t, s.Sequencer)
		require.NotZero(t, node[bob], "what has ended is remembered")
		require.Nil(t, s.Command(record.Command{Kind: record.ForgetSession, Session: id}).Refusal)
		commitAll(t, s.Sequencer)
	}
	require.NotContains(t, node, uint32(bob))
}

// So are the epochs that its sessions have ended, of which each takes as much as eight runs.
func TestOnePrincipalIsRefusedTheEpochsThatItsSessionsRemember(t *testing.T) {
	const few = MinSpansPerSession * bytesOfSpan / bytesOfLife
	node := fakePrincipals{}
	s := newAsked(NewTable(), node)
	id, refusal := s.open(bob)
	require.Nil(t, refusal)
	s.ids++
	producer := s.ids.WithPrincipal(bob)
	appendIn := func(epoch record.Epoch) {
		require.Nil(t, s.Append(request(t, Append{Session: id, Epoch: epoch})).Refusal)
		require.Nil(t, s.Append(request(t, Append{Session: producer, Epoch: epoch, Implicit: true})).Refusal)
	}
	end := func(epoch record.Epoch) *record.Refusal {
		return s.Command(record.Command{Kind: record.EndEpoch, Session: id, Epoch: epoch}).Refusal
	}
	appendIn(0)
	node[bob] += crowds * bytesOfSession
	for epoch := range record.Epoch(few) {
		require.Nil(t, end(epoch), "it does not take much")
		appendIn(epoch + 1)
		if epoch%2 == 0 {
			commitAll(t, s.Sequencer)
		}
	}
	refusal = end(few)
	require.NotNil(t, refusal)
	require.Equal(t, record.Busy, refusal.Reason)
	require.NotNil(t, s.Append(request(t, Append{Session: producer, Epoch: few + 1, Implicit: true})).Refusal)
	require.Nil(t, s.Command(record.Command{Kind: record.EndEpoch, Session: id, Epoch: few - 1}).Refusal, "it has ended")
	node[bob] -= crowds * bytesOfSession
	require.Nil(t, end(few))
	node[bob] += crowds * bytesOfSession
	require.Nil(t, end(few+1), "it has no records, and is not remembered")
}

// A user that takes what the node has for sessions, in whichever logs, takes no more than others have left.
func TestOnePrincipalIsRefusedWhatTheNodeLeavesToOthers(t *testing.T) {
	node := fakePrincipals{bob: crowds * bytesOfSession}
	s := newAsked(NewTable(), node)
	_, refusal := s.open(bob)
	require.Equal(t, record.Busy, refusal.Reason)
	require.True(t, refusal.OwnShare)
	require.Contains(t, refusal.Detail, "the node's memory for sessions")
	_, refusal = s.open(carol)
	require.Nil(t, refusal)
	s.SetMemoryLeft(MemoryUsedUp)
	_, refusal = s.open(carol)
	require.Equal(t, record.Busy, refusal.Reason)
	require.False(t, refusal.OwnShare, "others have used it up")
}

// A user whose sessions have all ended gets new ones: where it takes more than others have left, what it can still be
// asked for is forgotten after minutes, and not after a day, at nobody else's cost.
func TestEndedSessionsMakeRoomForOthersOfTheirUser(t *testing.T) {
	node := fakePrincipals{}
	s := newAsked(NewTable(), node)
	var ended []record.SessionID
	for range 3 {
		for _, principal := range []uint32{bob, carol} {
			id, refusal := s.open(principal)
			require.Nil(t, refusal)
			commitAll(t, s.Sequencer)
			require.Nil(t, s.Command(record.Command{Kind: record.CloseSession, Session: id}).Refusal)
			if principal == bob {
				ended = append(ended, id)
			}
		}
	}
	commitAll(t, s.Sequencer)
	require.Empty(t, s.Forgettable(EndedRetentionMs), "there is room")
	const others = (crowds - 2) * bytesOfSession
	node[bob] += others
	_, refusal := s.open(bob)
	require.NotNil(t, refusal)
	require.Contains(t, refusal.Detail, "0 of them open in this log")

	s.Tick(2 * TickMs)
	require.Empty(t, s.Forgettable(EvictSilentMs), "it is looked for now and then")
	for now := int64(0); now <= evictEveryMs+4*TickMs; now += TickMs {
		s.Tick(now)
	}
	require.Empty(t, s.Forgettable(EvictSilentMs-1), "what ended a moment ago can still be asked for")
	for now := int64(0); now <= 2*evictEveryMs+8*TickMs; now += TickMs {
		s.Tick(now)
	}
	require.Equal(t, ended, s.Forgettable(EvictSilentMs))
	for _, id := range ended {
		require.Nil(t, s.Command(record.Command{Kind: record.ForgetSession, Session: id}).Refusal)
	}
	commitAll(t, s.Sequencer)
	_, refusal = s.open(bob)
	require.Nil(t, refusal)
}

// A user whose Kafka producers come once and never again gets room for new ones, at nobody else's cost.
func TestSilentProducersMakeRoomForOthersOfTheirUser(t *testing.T) {
	node := fakePrincipals{}
	s := newAsked(NewTable(), node)
	produce := func(principal uint32) *record.Refusal {
		s.ids++
		return s.Append(request(t, Append{Session: s.ids.WithPrincipal(principal), Implicit: true})).Refusal
	}
	for range 3 {
		require.Nil(t, produce(bob))
		require.Nil(t, produce(carol))
	}
	commitAll(t, s.Sequencer)
	for now := int64(0); now <= EvictSilentMs+2*evictEveryMs; now += TickMs {
		s.Tick(now)
	}
	require.Empty(t, s.Expired(), "there is room")
	node[bob] += crowds * bytesOfSession
	require.NotNil(t, produce(bob))
	ended := s.Expired()
	require.Len(t, ended, 3)
	for _, id := range ended {
		require.EqualValues(t, bob, id.Principal())
		require.False(t, s.Expire(id).Duplicate)
	}
	node[bob] -= crowds * bytesOfSession
	require.Nil(t, produce(bob))
	require.Empty(t, s.Expired())
	require.Zero(t, s.principals.crowding)
}

func TestOpenSessionsAreListedInOrder(t *testing.T) {
	s := newAsked(NewTable(), nil)
	s.ids = 0
	for range 3 {
		_, refusal := s.open(bob)
		require.Nil(t, refusal)
	}
	s.ids++
	require.Nil(t, s.Append(request(t, Append{Session: s.ids.WithPrincipal(carol), Implicit: true})).Refusal)
	commitAll(t, s.Sequencer)
	second := record.SessionID(2).WithPrincipal(bob)
	require.Nil(t, s.Command(record.Command{Kind: record.CloseSession, Session: second}).Refusal)
	commitAll(t, s.Sequencer)
	s.Tick(TickMs)

	some, more := s.Open(0, 2)
	require.True(t, more)
	require.Equal(t, []OpenSession{
		{ID: record.SessionID(1).WithPrincipal(bob), Lease: 1000, Silent: TickMs, Bytes: bytesOfSession}, {ID: record.SessionID(3).WithPrincipal(bob), Lease: 1000, Silent: TickMs, Bytes: bytesOfSession},
	}, some)
	some, more = s.Open(some[1].ID, 2)
	require.False(t, more)
	require.Equal(t, []OpenSession{{ID: s.ids.WithPrincipal(carol), Implicit: true, Next: 2, Lease: MaxLeaseMs, Silent: TickMs, Bytes: bytesOfSession + bytesOfSpan}}, some)
}

// fakePrincipals counts, and refuses who has more than crowds sessions would take.
type fakePrincipals map[uint32]int64

const crowds = 1000

func (f fakePrincipals) Changed(principal uint32, by int64) {
	if f[principal] += by; f[principal] == 0 {
		delete(f, principal)
	}
}

func (f fakePrincipals) Crowds(principal uint32, _ int64) bool {
	return f[principal] >= crowds*bytesOfSession
}
