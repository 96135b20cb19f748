package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// The disks of a majority may pass both thresholds between two looks at them. What
// the leader has proposed by then lies in front of every trim, and of the first
// entry of the next leader.
func TestWhatIsInFlightWhenBothThresholdsArePassedDoesNotStopTrims(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	for id, m := range c.all {
		if id != l {
			m.core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
		}
	}
	pending := c.append(l, values(t, "two"))
	c.settle()
	require.Zero(t, pending.First.Count, "it may not be the last one")
	c.all[l].core.SetRoom(sequence.RoomForRecords, sequence.RoomForTrims)
	trimmed := c.command(l, record.Command{Kind: record.Trim, Offset: 1})
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, uint32(1), pending.First.Count)
	require.Nil(t, trimmed.Refusal)
	require.EqualValues(t, 1, trimmed.Start)
	refused := c.append(l, values(t, "three"))
	c.settle()
	require.Equal(t, record.Full, refused.Refusal.Reason)
}

// A majority has room, so that nothing is refused: what comes meanwhile waits for the other leader.
func TestALeaderWithoutRoomLetsAVoterWithRoomLead(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	heir, other := l%3+1, (l+1)%3+1
	c.all[other].hangs = true
	pending := c.append(l, values(t, "in flight"))
	c.all[l].core.SetRoom(sequence.RoomForTrims, sequence.RoomForRecords, heir, other)
	waits := c.append(l, values(t, "waits"))
	require.Nil(t, waits.Refusal)
	for range electionTicks {
		c.tick()
	}
	require.True(t, c.all[heir].core.Group.Leads())
	require.Equal(t, uint32(1), pending.First.Count, "it commits before leadership ends")
	require.Equal(t, record.NotLeader, waits.Refusal.Reason, "it is sent again, to the new leader")
	c.all[other].hangs = false
	require.True(t, c.all[heir].core.Handover.HandOver(l), "somebody wants it back there")
	for range electionTicks {
		c.tick()
	}
	require.False(t, c.all[l].core.Group.Leads(), "it does not keep what it cannot do")
	leads := c.leader()
	require.Nil(t, c.append(leads, values(t, "waits")).Refusal)
	c.settle()
	require.Less(t, c.all[l].core.Group.storage.last, c.all[leads].core.Group.storage.last, "it keeps its room")
}

// One without room would hand straight back.
func TestLeadershipIsHandedToAVoterWithRoom(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	c.settle()
	full, heir := max(l%3+1, (l+1)%3+1), min(l%3+1, (l+1)%3+1)
	for id, m := range c.all {
		own, others := sequence.RoomForRecords, []uint64{l, heir}
		if id == full {
			own = sequence.RoomForTrims
		}
		m.core.SetRoom(own, sequence.RoomForRecords, slices.DeleteFunc(others, func(other uint64) bool { return other == id })...)
	}
	require.True(t, c.all[l].core.Handover.HandOver(0))
	for range 4 * electionTicks {
		c.tick()
		require.False(t, c.all[full].core.Group.Leads())
	}
	require.True(t, c.all[heir].core.Group.Leads())
}

// A node that says it has room and does not answer leads nothing: then appends are refused in the end.
func TestALeaderWithoutRoomRefusesWhenNobodyTakesOver(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	for id := range c.all {
		if id != l {
			c.cut[[2]uint64{l, id}] = true
		}
	}
	c.all[l].core.SetRoom(sequence.RoomForCommands, sequence.RoomForRecords, l%3+1)
	waits := c.append(l, values(t, "waits"))
	for range leaveTicks / 2 {
		c.all[l].core.Tick()
		c.all[l].core.Advance()
	}
	require.Nil(t, waits.Refusal)
	c.cut = map[[2]uint64]bool{}
	c.all[l].core.SetRoom(sequence.RoomForRecords, sequence.RoomForRecords)
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, uint32(1), waits.First.Count, "there is room again before anybody took over")

	c.all[l%3+1].hangs = true
	for range caughtUpLag + 1 { // so that it cannot take over
		require.Nil(t, c.append(l, values(t, "an entry of its own")).Refusal)
		c.settle()
	}
	c.all[l].core.SetRoom(sequence.RoomForCommands, sequence.RoomForRecords, l%3+1)
	waits = c.append(l, values(t, "waits"))
	trimmed := c.command(l, record.Command{Kind: record.Trim, Offset: 1})
	for range 3 {
		c.tick()
	}
	require.Nil(t, waits.Refusal)
	require.EqualValues(t, 1, trimmed.Start, "it makes room, and does not wait with what needs some")
	for range leaveTicks {
		c.tick()
	}
	require.True(t, c.all[l].core.Group.Leads())
	require.Equal(t, record.Full, waits.Refusal.Reason)
	c.all[l%3+1].hangs = false
	for range 3 * leaveTicks {
		c.tick()
	}
	require.True(t, c.all[l%3+1].core.Group.Leads(), "it goes on trying")
}

// The client makes room by moving its hold. Releasing the hold would give up the records that it keeps.
func TestAHoldIsMovedForwardWhereAllDisksAreFull(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	hold := func(from record.Offset, pointer string) *sequence.Answer {
		text := record.AppendHold(nil, record.Hold{Name: "backup", Pointer: []byte(pointer)})
		a := c.command(l, record.Command{Kind: record.SetHold, Offset: from, Text: text})
		for range 2 * electionTicks {
			c.tick()
		}
		return a
	}
	require.Nil(t, c.append(l, values(t, "one")).Refusal)
	require.Nil(t, hold(0, "0").Refusal)
	for _, m := range c.all {
		m.core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
	}
	require.Equal(t, record.Full, hold(1, "longer").Refusal.Reason)
	moved := hold(1, "1")
	require.Nil(t, moved.Refusal)
	require.EqualValues(t, 1, moved.Start)
	trimmed := c.command(l, record.Command{Kind: record.Trim, Offset: 1})
	for range 2 * electionTicks {
		c.tick()
	}
	require.Nil(t, trimmed.Refusal)
	require.EqualValues(t, 1, trimmed.Start)
}

// A follower whose disk is full does not fill it up with what it is not needed for.
func TestAFullFollowerDoesNotTakeWhatHasCommittedWithoutIt(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	full := l%3 + 1
	c.all[full].core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
	last := c.all[full].log.LastIndex()
	for range 10 {
		c.append(l, values(t, "x"))
		c.settle()
	}
	c.all[l].core.SetRoom(sequence.RoomForTrims, sequence.RoomForTrims)
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, last, c.all[full].log.LastIndex())
}

// What is trimmed goes when the digest covers it, and records may lie between.
func TestAFullFollowerTakesTheEntryThatLetsTrimmedSegmentsGo(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	full := c.all[l%3+1].core
	full.SetRoom(sequence.RoomForCommands, sequence.RoomForRecords)
	require.Nil(t, c.append(l, digested(values(t, "one"))).Refusal)
	c.settle()
	c.command(l, record.Command{Kind: record.Trim, Offset: 1})
	c.settle()
	require.Nil(t, c.append(l, digested(values(t, "two"))).Refusal)
	c.settle()
	leader := c.all[l]
	require.Equal(t, HashRange{0, 1}, leader.hash)
	leader.core.Hashing.Hashed(0, contents(t, leader.log, leader.hash), nil)
	for range 2 * electionTicks {
		c.tick()
	}
	require.Equal(t, record.Offset(1), leader.core.Applier.disposable())
	require.Equal(t, record.Offset(1), full.Applier.disposable())

	c.append(l, digested(values(t, "three")))
	for range 2 * electionTicks {
		c.tick()
	}
	require.Less(t, full.Group.storage.last, leader.core.Group.storage.last, "it keeps its room")
}

// baseAside fails the test when the snapshot is read before aside is true.
type baseAside struct {
	segment.Log
	t     *testing.T
	aside bool
}

func (l *baseAside) LoadBase() (uint64, uint64, []byte, error) {
	require.True(l.t, l.aside, "the loop reads the disk")
	return l.Log.LoadBase()
}

func TestTheSnapshotForAFollowerIsReadAside(t *testing.T) {
	log := &baseAside{Log: memory.New(bootstrapOf(t, 1)), t: t}
	c, err := newCore(1, log, log.HardState())
	require.NoError(t, err)
	_, err = c.Group.storage.Snapshot()
	require.ErrorIs(t, err, raft.ErrSnapshotTemporarilyUnavailable)
	require.True(t, c.Advance().Base)
	_, err = c.Group.storage.Snapshot()
	require.ErrorIs(t, err, raft.ErrSnapshotTemporarilyUnavailable)
	require.False(t, c.Advance().Base, "it is under way")
	log.aside = true
	c.Supply.BaseLoaded(log.LoadBase())
	log.aside = false
	s, err := c.Group.storage.Snapshot()
	require.NoError(t, err)
	require.Equal(t, uint64(bootstrapIndex), s.GetMetadata().GetIndex())
	require.Equal(t, []uint64{1}, s.GetMetadata().GetConfState().GetVoters())

	for range lagging.FeedTicks + 1 {
		c.Group.storage.base.Tick()
	}
	require.Nil(t, c.Group.storage.base.Data, "nobody takes it any more")
}

// Raft clears its own flag once in an election timeout, and the cluster's status
// showed followers that are well as unreachable until the next heartbeat.
func TestAFollowerThatAnswersIsActiveAtEveryTick(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "one"))
	c.settle()
	for i := range 4 * electionTicks {
		for range 1 + i%3 { // so that Raft's timeout ends here and not in c.tick, too
			c.all[l].core.Tick() // before anything that it sends is answered
		}
		for _, p := range c.all[l].core.Group.Peers() {
			require.True(t, p.Active, "replica %d", p.Replica)
		}
		c.tick()
	}
	gone := l%3 + 1
	c.all[gone].down = true
	for range 2 * electionTicks {
		c.tick()
	}
	for _, p := range c.all[l].core.Group.Peers() {
		require.Equal(t, p.Replica != gone, p.Active, "replica %d", p.Replica)
	}
}
