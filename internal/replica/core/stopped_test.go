package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
)

// stop returns what the log of a replica adds up to that has ended.
func (c *trio) stop(id uint64) *Stopped {
	c.t.Helper()
	m := c.all[id]
	m.down = true
	s, err := ReadStopped(m.log, m.log.HardState(), m.log.LastIndex())
	require.NoError(c.t, err)
	return s
}

// Three of five are lost. The two that are left continue with all that either has, and so does a
// third one that comes later and reads the log from its beginning.
func TestTheRestOfALogContinuesWithoutThoseThatAreLost(t *testing.T) {
	c := newTrio(t, 1, 2, 3, 4, 5)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	behind := l%5 + 1
	c.all[behind].down = true
	a := c.append(l, values(t, "two"))
	c.settle()
	require.Nil(t, a.Refusal)
	short, whole := c.stop(behind), c.stop(l)
	require.Less(t, short.Last, whole.Last)
	_, end := whole.Bounds()
	require.EqualValues(t, 2, end)
	require.Len(t, whole.Members().Voters, 5)

	continuation := Continuation{Replica: l, Keep: []uint64{l, behind}, Term: 70_000, Unix: c.now.Unix, Records: [][]byte{[]byte("three")}}
	w, err := whole.Continue(continuation)
	require.NoError(t, err)
	require.ElementsMatch(t, []uint64{l, behind}, whole.Members().Voters)
	require.EqualValues(t, 1, w.Entries[0].Count, "who has the new configuration has the record")
	log := c.all[l].log
	_, err = log.Write([]segment.Write{w})
	require.NoError(t, err)
	// Once more, as after a crash.
	again, err := ReadStopped(log, log.HardState(), w.Entries[0].Index-1)
	require.NoError(t, err)
	same, err := again.Continue(continuation)
	require.NoError(t, err)
	require.Equal(t, w, same)

	left := &trio{t: t, now: c.now, all: map[uint64]*member{}, cut: map[[2]uint64]bool{}}
	for _, id := range continuation.Keep {
		m := &member{log: c.all[id].log}
		m.core, err = newCore(id, m.log, m.log.HardState())
		require.NoError(t, err)
		left.all[id] = m
	}
	l = left.leader()
	require.Equal(t, continuation.Replica, l, "only that one has all")
	require.Greater(t, left.all[l].core.Group.term, continuation.Term)
	last := left.append(l, values(t, "four"))
	left.settle()
	require.Nil(t, last.Refusal)
	require.EqualValues(t, 3, last.First.First)
	b, err := Bootstrap([]uint64{1, 2, 3, 4, 5})
	require.NoError(t, err)
	m := &member{log: memory.New(b)}
	m.core, err = newCore(9, m.log, b.HardState)
	require.NoError(t, err)
	left.all[9] = m
	for range 100 {
		left.all[l].core.SetNow(left.now)
		if left.all[l].core.Membership.Reshape([]uint64{l, behind, 9}, nil) {
			break
		}
		left.tick()
	}
	require.ElementsMatch(t, []uint64{l, behind, 9}, m.core.Group.members().Voters)
	require.EqualValues(t, 4, m.core.Group.storage.table.End())
}

// The one that is left was a learner, in a configuration that was being changed.
func TestALearnerContinuesAJointConfiguration(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	s := c.stop(l)
	_, err := s.Continue(Continuation{Replica: 9, Keep: []uint64{9, l}, Term: 70_000})
	require.NoError(t, err)
	require.ElementsMatch(t, []uint64{9, l}, s.Members().Voters)
	w, err := s.Continue(Continuation{Replica: 9, Term: 80_000})
	require.NoError(t, err)
	require.Len(t, w.Entries, 2, "into a joint configuration and out of it")
	require.Equal(t, Members{Voters: []uint64{9}}, s.Members())
}

// Two of three grant a writer term that the third has not heard of, and are lost. The log
// continues with the third, and grants the term to nobody again: who has it is fenced.
func TestALogContinuesAboveAllWriterTermsThatLostReplicasGranted(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	acquire := func(c *trio, l uint64) record.WriterTerm {
		a := c.command(l, record.Command{Kind: record.AcquireWriter})
		c.settle()
		require.Nil(t, a.Refusal)
		return a.WriterTerm
	}
	acquire(c, l)
	survivor := l%3 + 1
	c.all[survivor].down = true
	lost := acquire(c, l)
	s := c.stop(survivor)
	w, err := s.Continue(Continuation{Replica: survivor, Keep: []uint64{survivor}, Term: 70_000, Unix: c.now.Unix, WriterTerms: 1000})
	require.NoError(t, err)
	log := c.all[survivor].log
	_, err = log.Write([]segment.Write{w})
	require.NoError(t, err)

	left := &trio{t: t, now: c.now, all: map[uint64]*member{survivor: {log: log}}, cut: map[[2]uint64]bool{}}
	left.restart(survivor)
	left.leader()
	write := func(term record.WriterTerm) *record.Refusal {
		a := values(t, "by its writer")
		a.WriterTerm = term
		answer := left.append(survivor, a)
		left.settle()
		return answer.Refusal
	}
	require.Equal(t, record.Fenced, write(lost).Reason, "before anybody else has a term")
	next := acquire(left, survivor)
	require.Greater(t, next, lost)
	require.Nil(t, write(next))
	require.Equal(t, record.Fenced, write(lost).Reason)
}

// The one that is left has begun with a leader's snapshot, and the trim because of which it was sent one is
// lost with the others. The log continues where what is stored begins, and its holds with it.
func TestALogContinuesWhereWhatIsStoredBegins(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one", "two")).Refusal)
	hold := record.Hold{Name: "backup", Pointer: []byte("here")}
	require.Nil(t, c.command(l, record.Command{Kind: record.SetHold, Text: record.AppendHold(nil, hold)}).Refusal)
	c.settle()
	leader := c.all[l].core.Group.storage
	begin, err := Bootstrap([]uint64{1, 2, 3})
	require.NoError(t, err)
	log := memory.New(begin)
	hard := segment.HardState{Term: leader.appliedTerm, Commit: leader.applied}
	require.NoError(t, log.Reset(leader.applied, leader.appliedTerm, 2, hard, encodeState(begin.ConfState, leader.table.Snapshot(nil))))

	s, err := ReadStopped(log, hard, log.LastIndex())
	require.NoError(t, err)
	start, end := s.Bounds()
	require.EqualValues(t, 2, start)
	require.EqualValues(t, 2, end)
	w, err := s.Continue(Continuation{Replica: 9, Keep: []uint64{9}, Term: 70_000, Unix: c.now.Unix, WriterTerms: 1000})
	require.NoError(t, err)
	_, err = log.Write([]segment.Write{w})
	require.NoError(t, err)

	left := &trio{t: t, now: c.now, all: map[uint64]*member{9: {log: log}}, cut: map[[2]uint64]bool{}}
	left.restart(9)
	left.leader()
	a := left.append(9, values(t, "three"))
	for range 10 {
		left.tick()
	}
	require.Nil(t, a.Refusal)
	require.EqualValues(t, 2, a.First.First)
	require.False(t, left.all[9].core.Status().Short)
	hold.Offset = 2
	require.Equal(t, []record.Hold{hold}, left.all[9].core.Group.storage.table.Holds())
}
