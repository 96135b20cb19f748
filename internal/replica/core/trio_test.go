package core

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/sequence"
)

// trio is a log on several replicas whose disks and network the test moves:
// nothing is durable, and nothing arrives, before the test says so.
type trio struct {
	t     *testing.T
	now   Now
	all   map[uint64]*member
	wires []wire
	// cut wires lose what is sent: from, to.
	cut map[[2]uint64]bool
	// loses reports whether a message is lost that no cut loses; nil: none is.
	loses func(*raftpb.Message) bool
}

type member struct {
	core    *Core
	log     segment.Log
	pending []Write
	feeds   []Feed
	fed     []Feed    // all there were
	hash    HashRange // asked for last
	down    bool
	hangs   bool       // its disk: what is pending stays so
	reading func(bool) // called before and after entries are read aside
	pulse   Pulse      // beats while it is not down
}

type wire struct {
	to      uint64
	message []byte
}

func newTrio(t *testing.T, voters ...uint64) *trio {
	c := &trio{t: t, now: Now{Monotonic: 1000, Unix: 1_700_000_000_000}, all: map[uint64]*member{}, cut: map[[2]uint64]bool{}}
	for _, id := range voters {
		c.add(id, voters)
	}
	return c
}

// add starts a replica from the synthetic state that all begin with.
func (c *trio) add(id uint64, voters []uint64) {
	b, err := Bootstrap(voters)
	require.NoError(c.t, err)
	m := &member{log: memory.New(b)}
	m.core, err = newCore(id, m.log, b.HardState)
	require.NoError(c.t, err)
	c.all[id] = m
}

// restart opens a replica's log again; what was not durable is gone.
func (c *trio) restart(id uint64) {
	m := c.all[id]
	core, err := newCore(id, m.log, m.log.HardState())
	require.NoError(c.t, err)
	m.core, m.pending, m.feeds, m.down = core, nil, nil, false
}

func (c *trio) step(id uint64) {
	m := c.all[id]
	if m.down {
		return
	}
	m.core.SetNow(c.nowOf(m))
	out := m.core.Advance()
	m.core.Waiters.Wake()
	require.NoError(c.t, m.core.CheckInvariants())
	m.pending = append(m.pending, out.Writes...)
	if out.Hash.Until > 0 {
		m.hash = out.Hash
	}
	for _, message := range out.Messages {
		c.send(id, message)
	}
	for _, a := range out.Answers {
		a.Done(a.Answer)
	}
	for _, s := range out.Snapshots {
		require.NoError(c.t, m.log.SaveSnapshot(s.Index, s.Term, s.Encode()))
	}
	m.feeds, m.fed = append(m.feeds, out.Feeds...), append(m.fed, out.Feeds...)
	if out.Base {
		index, term, data, err := m.core.Group.storage.log.LoadBase()
		m.core.Supply.BaseLoaded(index, term, data, err)
		c.step(id)
	}
}

// send puts a message on the wire as it would go over a real one.
func (c *trio) send(from uint64, m *raftpb.Message) {
	to := m.GetTo()
	parts, err := EncodeMessage(m, func(e *raftpb.Entry) uint32 { return record.Checksum(e.Data) })
	require.NoError(c.t, err)
	if c.cut[[2]uint64{from, to}] || c.all[to] == nil || c.all[to].down || c.loses != nil && c.loses(m) {
		return
	}
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	c.wires = append(c.wires, wire{to, b})
}

// deliver brings the i-th message to its receiver.
func (c *trio) deliver(i int) {
	w := c.wires[i]
	c.wires = append(c.wires[:i:i], c.wires[i+1:]...)
	to := c.all[w.to]
	if to == nil || to.down {
		return
	}
	m, err := DecodeMessage(w.message)
	require.NoError(c.t, err)
	require.NoError(c.t, CheckMessage(m))
	require.True(c.t, FromPeers(m.GetType()), m.GetType())
	_ = to.core.Step(m)
	c.step(w.to)
}

// sync makes everything that a replica has pending durable.
func (c *trio) sync(id uint64) {
	m := c.all[id]
	if m.down || m.hangs || len(m.pending) == 0 {
		return
	}
	writeAll(c.t, m.core, m.log, m.pending)
	m.pending = nil
	c.step(id)
}

// writeAll makes a group of writes durable, as the runtime does.
func writeAll(t *testing.T, c *Core, log segment.Log, group []Write) {
	var writes []segment.Write
	var rolled []uint64
	for i := range group {
		if s := group[i].Install; s != nil {
			writes, rolled = nil, nil
			require.NoError(t, log.Reset(s.Index, s.Term, s.Start, s.Hard, s.Encode()))
		}
		writes = append(writes, group[i].Write)
	}
	result, err := log.Write(writes)
	require.NoError(t, err)
	rolled = append(rolled, result.Rolled...)
	for i := range group {
		c.Written(group[i], rolled)
		rolled = nil
	}
}

// feed reads what a leader asked for.
func (c *trio) feed(id uint64) {
	m := c.all[id]
	feeds := m.feeds
	m.feeds = nil
	for _, f := range feeds {
		if m.reading != nil {
			m.reading(true)
		}
		frames, err := m.log.Entries(f.Lo, f.Hi, f.Bytes)
		if m.reading != nil {
			m.reading(false)
		}
		require.NoError(c.t, err)
		m.core.Supply.Fed(f.Lo, tail.EntriesOf(frames))
	}
	c.step(id)
}

// quiet reports that no message, write or range is under way.
func (c *trio) quiet() bool {
	if len(c.wires) > 0 {
		return false
	}
	for _, m := range c.all {
		if !m.down && (!m.hangs && len(m.pending) > 0 || len(m.feeds) > 0) {
			return false
		}
	}
	return true
}

// settle lets everything arrive and become durable.
func (c *trio) settle() {
	for id := range c.all {
		c.step(id)
	}
	for !c.quiet() {
		for len(c.wires) > 0 {
			c.deliver(0)
		}
		for id := range c.all {
			c.sync(id)
			if !c.all[id].down {
				c.feed(id)
			}
		}
	}
}

// nowOf returns the time as the process of a replica knows it.
func (c *trio) nowOf(m *member) Now {
	now := c.now
	now.Stalled = m.pulse.Stalled(now.Monotonic)
	return now
}

func (c *trio) tick() {
	c.now.Monotonic += TickMillis
	c.now.Unix += TickMillis
	for id, m := range c.all {
		if !m.down {
			m.pulse.Beat(c.now.Monotonic)
			m.core.SetNow(c.nowOf(m))
			m.core.Tick()
			c.step(id)
		}
	}
	c.settle()
}

// leader ticks until a leader is ready, and returns who.
func (c *trio) leader(but ...uint64) uint64 {
	c.t.Helper()
	for range 200 {
		for id, m := range c.all {
			if !m.down && m.core.Group.role == leaderReady && m.core.Group.failed == nil {
				other := true
				for _, b := range but {
					other = other && b != id
				}
				if other {
					return id
				}
			}
		}
		c.tick()
	}
	c.t.Fatal("nobody leads")
	return 0
}

func (c *trio) append(id uint64, a *sequence.Append) *sequence.Answer {
	answer := &sequence.Answer{}
	c.all[id].core.Append(&Request{Append: a, Done: func(got sequence.Answer) { *answer = got }})
	c.step(id)
	return answer
}

func (c *trio) command(id uint64, command record.Command) *sequence.Answer {
	answer := &sequence.Answer{}
	c.all[id].core.Append(&Request{Command: &command, Done: func(got sequence.Answer) { *answer = got }})
	c.step(id)
	return answer
}

// ends are the committed ends that the replicas know.
func (c *trio) requireEnd(want record.Offset) {
	c.t.Helper()
	c.tick()
	c.tick()
	c.tick()
	for id, m := range c.all {
		if !m.down {
			_, end, err := m.core.Group.storage.tail.Bounds()
			require.NoError(c.t, err)
			require.Equal(c.t, want, end, "replica %d", id)
			require.Equal(c.t, want, m.core.Group.storage.table.End(), "table of replica %d", id)
		}
	}
}

func big(t *testing.T, text string, size int) *sequence.Append {
	return values(t, text+strings.Repeat(" ", size))
}

func TestAnAppendIsOnAMajorityBeforeItIsAnswered(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	answer := c.append(l, values(t, "one"))
	for len(c.wires) > 0 {
		c.deliver(0)
	}
	require.Zero(t, answer.First.Count, "nothing is durable yet")
	c.sync(l)
	for len(c.wires) > 0 {
		c.deliver(0)
	}
	require.Zero(t, answer.First.Count, "one of three is no majority")
	for id := range c.all {
		if id != l {
			c.sync(id)
			break
		}
	}
	c.settle()
	require.Equal(t, uint32(1), answer.First.Count)
	c.requireEnd(1)
}

func TestTwoFollowersCommitWhatASlowLeaderHasNotWritten(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	answer := c.append(l, values(t, "one"))
	for len(c.wires) > 0 {
		c.deliver(0)
	}
	for id := range c.all {
		if id != l {
			c.sync(id)
		}
	}
	for len(c.wires) > 0 {
		c.deliver(0)
	}
	require.NotEmpty(t, c.all[l].pending, "the leader's own write is still under way")
	require.Equal(t, uint32(1), answer.First.Count)
	c.settle()
	c.requireEnd(1)
}

func TestWhatAFormerLeaderCouldNotCommitIsUnknownAndGivesWay(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "kept"))
	c.settle()
	for id := range c.all {
		c.cut[[2]uint64{l, id}], c.cut[[2]uint64{id, l}] = true, true
	}
	lost := c.append(l, values(t, "lost"))
	next := c.leader(l)
	c.append(next, values(t, "new"))
	c.settle()
	clear(c.cut)
	c.requireEnd(2)
	require.Equal(t, record.OutcomeUnknown, lost.Refusal.Reason)
	refused := c.append(l, values(t, "late"))
	c.settle()
	require.Equal(t, record.NotLeader, refused.Refusal.Reason)
}

func TestAHandoverLosesNothingAndLeavesNothingUnknown(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	pending := c.append(l, values(t, "in flight"))
	require.True(t, c.all[l].core.Handover.HandOver(0))
	waiting := c.append(l, values(t, "waits"))
	c.settle()
	next := c.leader(l)
	require.NotEqual(t, l, next)
	require.Equal(t, uint32(1), pending.First.Count)
	require.Equal(t, record.NotLeader, waiting.Refusal.Reason)
	c.requireEnd(1)
}

func TestAFollowerThatLagsIsFedFromDisk(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lagging := l%3 + 1
	c.all[lagging].down = true
	for i := range 40 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	first, _ := inMemory(c.all[l].core)
	require.Greater(t, first, uint64(10), "the oldest have left memory")
	c.restart(lagging)
	c.requireEnd(40)
}

// coldLog has no term in memory, and fails the test when the disk is read for what
// was applied before aside is true.
type coldLog struct {
	segment.Log
	t     *testing.T
	core  **Core
	aside bool
}

func (l *coldLog) TermInMemory(index uint64) (uint64, error) {
	if index+1 == l.Log.FirstIndex() {
		return l.Log.Term(index)
	}
	return 0, segment.ErrNotInMemory
}

func (l *coldLog) Term(index uint64) (uint64, error) {
	require.True(l.t, l.aside || index > (*l.core).Group.storage.applied, "the loop reads the disk for the term of %d", index)
	return l.Log.Term(index)
}

func (l *coldLog) Entries(lo, hi uint64, maxBytes int) ([]segment.Entry, error) {
	require.True(l.t, l.aside || lo > (*l.core).Group.storage.applied, "the loop reads the disk from %d on", lo)
	return l.Log.Entries(lo, hi, maxBytes)
}

func TestALeaderReadsAsideWhereAFollowerGoesOn(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lagging := l%3 + 1
	require.Nil(t, c.append(l, values(t, "first")).Refusal)
	c.settle()
	c.all[lagging].down = true
	for i := range 40 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	m := c.all[l]
	first, _ := inMemory(m.core)
	require.Greater(t, first, uint64(10), "the oldest have left memory")
	cold := &coldLog{Log: m.log, t: t, core: &m.core}
	m.log, m.core.Group.storage.log = cold, cold
	c.restart(lagging)
	read := 0
	c.all[l].reading = func(reading bool) { cold.aside, read = reading, read+1 }
	c.requireEnd(41)
	require.Greater(t, read, 2)
}

func TestAFollowerThatNeedsLessThanThereIsGetsTheStartAndTheRest(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lagging := l%3 + 1
	session := c.command(l, record.Command{Kind: record.OpenSession, Session: 7, Lease: 60_000})
	c.settle()
	require.Nil(t, session.Refusal)
	c.all[lagging].down = true
	for i := range 40 {
		a := big(t, fmt.Sprint("record ", i), 1<<20)
		a.Session, a.First = 7, record.Sequence(i)
		c.append(l, a)
		c.settle()
	}
	c.command(l, record.Command{Kind: record.Trim, Offset: 30})
	c.settle()
	m := c.all[l]
	trimAll(t, m.log, 30)
	require.Greater(t, m.log.FirstIndex(), uint64(20))

	c.restart(lagging)
	c.requireEnd(40)
	behind := c.all[lagging]
	start, _, err := behind.core.Group.storage.tail.Bounds()
	require.NoError(t, err)
	require.Equal(t, record.Offset(30), start)
	require.Equal(t, m.log.FirstIndex(), behind.log.FirstIndex(), "its files begin where the leader's do")

	// It knows the session as the others do.
	c.all[l].down = true
	duplicate := values(t, "again")
	duplicate.Session, duplicate.First = 7, 35
	next := c.leader(l)
	answer := c.append(next, duplicate)
	c.settle()
	require.True(t, answer.Duplicate)
	require.Equal(t, record.Offset(35), answer.First.First)

	// And after a restart it still does.
	c.restart(lagging)
	require.Equal(t, 1, c.all[lagging].core.Group.storage.table.OpenSessions())
}

// baseLost is a log that has lost the snapshot at its start.
type baseLost struct{ segment.Log }

func (baseLost) LoadBase() (uint64, uint64, []byte, error) { return 0, 0, nil, segment.ErrNoSnapshot }

func TestALeaderWithoutTheSnapshotThatAFollowerNeedsLetsAnotherLead(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lagging := l%3 + 1
	c.all[lagging].down = true
	for i := range 40 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	c.command(l, record.Command{Kind: record.Trim, Offset: 30})
	c.settle()
	for id, m := range c.all {
		if id != lagging {
			trimAll(t, m.log, 30)
		}
	}
	leader := c.all[l]
	leader.core.Group.storage.log = baseLost{leader.log}
	c.restart(lagging)
	for range 200 {
		c.tick()
		c.settle()
	}
	require.False(t, leader.core.Group.Leads())
	require.EqualValues(t, 40, c.all[lagging].core.Group.storage.table.End(), "and that one brings it up")
}

func TestAHandoverThatNobodyTakesEndsAndTheLeaderLeadsOn(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.settle()
	c.loses = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgTimeoutNow }
	require.True(t, c.all[l].core.Handover.HandOver(0))
	ended := 0
	c.all[l].core.Waiters.When(HandoverEnded, func() { ended++ })
	for range 2 * electionTicks {
		c.tick()
		c.settle()
	}
	require.Zero(t, ended, "it is still under way")
	for range 2 {
		c.tick()
		c.settle()
	}
	require.Equal(t, 1, ended)
	require.True(t, c.all[l].core.Group.Leads())
	require.Nil(t, c.append(l, values(t, "goes on")).Refusal)
}

// Until the follower has its snapshot, the leader's first entry has no majority.
func TestALostSnapshotIsSentAgainByALeaderThatIsNotReady(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	lagging, gone := l%3+1, (l+1)%3+1
	c.all[lagging].down = true
	for i := range 40 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	c.command(l, record.Command{Kind: record.Trim, Offset: 30})
	c.settle()
	trimAll(t, c.all[l].log, 30)
	c.all[gone].down = true
	c.restart(l)
	c.restart(lagging)
	lost := 0
	c.loses = func(m *raftpb.Message) bool {
		if m.GetType() != raftpb.MsgSnap || lost > 0 {
			return false
		}
		lost++
		return true
	}
	require.Equal(t, l, c.leader(), "the other lacks what is committed")
	require.Equal(t, 1, lost)
}

func TestAReplicaIsReplacedInOneJointChange(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	for i := range 30 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	dead := l%3 + 1
	c.all[dead].down = true
	var wanted []uint64
	for _, id := range []uint64{1, 2, 3, 4} {
		if id != dead {
			wanted = append(wanted, id)
		}
	}
	c.add(4, []uint64{1, 2, 3})
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		done := c.all[l].core.Membership.Reshape(wanted, nil)
		c.step(l)
		c.tick()
		if done {
			break
		}
	}
	require.ElementsMatch(t, wanted, c.all[l].core.Group.members().Voters)
	require.ElementsMatch(t, wanted, c.all[4].core.Group.members().Voters)
	c.requireEnd(30)
	require.Equal(t, wanted, c.all[l].core.Election.heirs(0))
}

func TestALeaderThatIsNotWantedHandsOverBeforeItLeaves(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	c.append(l, values(t, "one"))
	c.settle()
	var wanted []uint64
	for id := range c.all {
		if id != l {
			wanted = append(wanted, id)
		}
	}
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		lead := c.leader()
		done := c.all[lead].core.Membership.Reshape(wanted, nil)
		c.step(lead)
		c.tick()
		if done {
			require.NotEqual(t, l, lead)
			break
		}
	}
	delete(c.all, l)
	c.append(c.leader(), values(t, "two"))
	c.settle()
	c.requireEnd(2)
}

func TestALinearizableQuestionToAFollowerWaitsForWhatTheLeaderCommitted(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	f := l%3 + 1
	c.settle()
	c.cut[[2]uint64{l, f}] = true
	c.append(l, values(t, "one"))
	c.settle()
	asked := false
	c.all[f].core.Reads.Confirm(func(r *record.Refusal) {
		require.Nil(t, r)
		asked = true
		require.Equal(t, record.Offset(1), c.all[f].core.Group.storage.table.End())
	})
	c.step(f)
	c.settle()
	require.False(t, asked)
	clear(c.cut)
	for range 30 {
		c.tick()
	}
	require.True(t, asked)
	require.Positive(t, c.all[f].core.confirm.known)
}

// A sole voter that has just started again knows a commit index that was durable, and what it acknowledged after that
// is not below it. Raft answers others by it all the same where there is one voter only.
func TestALinearizableQuestionToASoleVoterThatStartedAgainWaitsForWhatItHadAcknowledged(t *testing.T) {
	c := newTrio(t, 1)
	require.EqualValues(t, 1, c.leader())
	c.add(2, []uint64{1})
	for i := 0; !c.all[1].core.Membership.Reshape([]uint64{1}, []uint64{2}); i++ {
		require.Less(t, i, 100)
		c.step(1)
		c.tick()
	}
	c.cut[[2]uint64{1, 2}] = true
	answer := c.append(1, values(t, "one"))
	c.sync(1)
	require.EqualValues(t, 1, answer.First.Count)
	c.restart(1)
	clear(c.cut)
	sole, reader := c.all[1], c.all[2]
	for i := 0; reader.core.Group.term != sole.core.Group.term || sole.core.Group.role == follower; i++ {
		require.Less(t, i, 100)
		if sole.hangs = sole.core.Group.role == elected; !sole.hangs { // but its vote becomes durable
			c.sync(1)
			sole.hangs = true
		}
		c.tick()
	}
	require.Equal(t, elected, sole.core.Group.role, "the entry of its term is not durable")
	require.EqualValues(t, 1, reader.core.Group.leader)

	asked := 0
	for range 2 { // as one that asks again
		reader.core.Reads.Confirm(func(r *record.Refusal) {
			require.Nil(t, r)
			require.EqualValues(t, 1, reader.core.Group.storage.table.End())
			asked++
		})
		for range electionTicks + 1 {
			c.tick()
		}
	}
	require.Zero(t, asked)
	require.Len(t, sole.core.Reads.early, 1)
	sole.hangs = false
	c.settle()
	require.Equal(t, 2, asked, "at once")
}

// A paused process that resumes as leader for a moment would otherwise answer that
// a session is kept which the new leader ends.
func TestALeaderThatWasReplacedWhileItSleptKeepsNoSession(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	former := c.leader()
	const id = 7
	c.command(former, record.Command{Kind: record.OpenSession, Session: id, Lease: 60_000})
	c.settle()
	keep := func() (answered bool, refusal *record.Refusal) {
		c.all[former].core.Reads.KeepSession(id, func(a sequence.Answer) { answered, refusal = true, a.Refusal })
		c.step(former)
		c.settle()
		return answered, refusal
	}
	answered, refusal := keep()
	require.True(t, answered)
	require.Nil(t, refusal)

	c.all[former].down = true
	require.NotEqual(t, former, c.leader())
	c.all[former].down = false
	answered, refusal = keep()
	require.True(t, answered)
	require.NotNil(t, refusal)
	require.Equal(t, record.NotLeader, refusal.Reason)
}

func TestAnswersHoldUnderAnyOrderOfMessagesAndCrashes(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { chaos(t, seed) })
	}
}

// chaos drives three replicas at random: messages are lost, reordered and
// repeated, replicas crash with what they had not synced. Whatever was answered
// is at its offset in the end, everywhere, once.
func chaos(t *testing.T, seed uint64) {
	c := newTrio(t, 1, 2, 3)
	random := rand.New(rand.NewPCG(seed, 1))
	type acked struct {
		answer *sequence.Answer
		text   string
	}
	var sent []acked
	for round := range 1500 {
		id := 1 + random.Uint64N(3)
		m := c.all[id]
		switch p := random.IntN(100); {
		case p < 45 && len(c.wires) > 0:
			i := random.IntN(len(c.wires))
			if random.IntN(10) == 0 {
				c.wires = append(c.wires, c.wires[i])
			}
			c.deliver(i)
		case p < 50 && len(c.wires) > 0:
			i := random.IntN(len(c.wires))
			c.wires = append(c.wires[:i:i], c.wires[i+1:]...)
		case p < 70:
			c.sync(id)
			if !m.down {
				c.feed(id)
			}
		case p < 80 && !m.down:
			if m.core.Group.role == leaderReady {
				text := fmt.Sprint("record ", round)
				sent = append(sent, acked{c.append(id, values(t, text)), text})
			}
		case p < 81 && !m.down:
			m.down = true
		case p < 83 && m.down:
			c.restart(id)
		case p < 84 && !m.down:
			m.core.Handover.HandOver(0)
			c.step(id)
		default:
			c.now.Monotonic += TickMillis
			c.now.Unix += TickMillis
			if !m.down {
				m.pulse.Beat(c.now.Monotonic)
				m.core.SetNow(c.nowOf(m))
				m.core.Tick()
				c.step(id)
			}
		}
	}
	for id, m := range c.all {
		if m.down {
			c.restart(id)
		}
	}
	c.wires = nil
	for range 60 {
		c.tick() // who led in vain hears of it
	}
	l := c.leader()
	c.append(l, values(t, "the last"))
	c.settle()
	_, end, err := c.all[l].core.Group.storage.tail.Bounds()
	require.NoError(t, err)
	c.requireEnd(end)
	want := c.stored(l)
	require.Len(t, want, int(end))
	for id := range c.all {
		require.Equal(t, want, c.stored(id), "replica %d", id)
	}
	seen := map[string]bool{}
	for _, text := range want {
		require.False(t, seen[text], "%q is there twice", text)
		seen[text] = true
	}
	for _, s := range sent {
		if s.answer.Refusal == nil && s.answer.First.Count > 0 {
			require.Equal(t, s.text, want[s.answer.First.First], "an acknowledged record")
		} else if r := s.answer.Refusal; r != nil && r.Reason.Outcome() == record.NotDone {
			require.False(t, seen[s.text], "%q was refused for certain, with %v", s.text, r)
		}
	}
}

func (c *trio) stored(id uint64) []string {
	m := c.all[id]
	b := &bench{t: c.t, core: m.core, log: m.log}
	texts := b.stored()
	for i, text := range texts {
		at, value, _ := strings.Cut(text, ":")
		require.Equal(c.t, fmt.Sprint(i), at, "offsets are dense from 0")
		texts[i] = value
	}
	return texts
}

func TestAReplicaThatCameLaterIsANewLearnerInAnOldSnapshot(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	for i := range 20 {
		c.append(l, big(t, fmt.Sprint("record ", i), 1<<20))
		c.settle()
	}
	c.command(l, record.Command{Kind: record.Trim, Offset: 15})
	c.settle()
	trimAll(t, c.all[l].log, 15)
	wanted := []uint64{4}
	for id := range c.all {
		if id != l%3+1 {
			wanted = append(wanted, id)
		}
	}
	c.all[l%3+1].down = true
	c.add(4, []uint64{1, 2, 3})
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		done := c.all[l].core.Membership.Reshape(wanted, nil)
		c.step(l)
		c.tick()
		m := c.all[4].core.Group.members()
		require.GreaterOrEqual(t, len(m.Voters), 3, "no configuration on the way has fewer voters")
		if done {
			break
		}
	}
	require.ElementsMatch(t, wanted, c.all[4].core.Group.members().Voters)
	c.requireEnd(20)
}

func TestAQuietLogIdlesUntilSomethingHappens(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	idle := func() {
		for range idleAfter + electionTicks {
			c.tick()
		}
		for id, m := range c.all {
			require.True(t, m.down || m.core.Activity.Due() > 0, "replica %d", id)
		}
	}
	idle()
	c.append(l, values(t, "one"))
	c.settle()
	for id, m := range c.all {
		require.Zero(t, m.core.Activity.Due(), "replica %d", id)
	}
	idle()
	c.all[l].down = true
	for id, m := range c.all {
		if id != l {
			m.core.Group.StirBy(l)
			m.core.Election.PeerGone(l)
			require.Zero(t, m.core.Activity.Due(), "the loss of a node wakes replica %d", id)
		}
	}
	c.tick()
	c.tick()
	require.NotEqual(t, l, c.leader(l), "nobody waits for an election timeout")
}

// A leader that removes itself with the last step may leave an entry behind which
// nobody else has. The new replica then asks it for its vote, and does not get it.
func TestALeaderNeverRemovesItself(t *testing.T) {
	for _, replicas := range [][]uint64{{1}, {1, 2}, {1, 2, 3}} {
		c := newTrio(t, replicas...)
		l := c.leader()
		wanted := make([]uint64, len(replicas))
		for i, id := range replicas {
			wanted[i] = id + 10
			c.add(wanted[i], replicas)
		}
		for i := 0; c.all[l].core.Group.Leads(); i++ {
			require.Less(t, i, 200)
			c.all[l].core.Membership.Reshape(wanted, nil)
			c.step(l)
			c.tick()
		}
		require.True(t, c.all[l].core.Group.isVoter(l), "it led until it left: %v", c.all[l].core.Group.members())
		require.Contains(t, wanted, c.leader())
	}
}

func TestALogOfOneReplicaMovesToAnotherNode(t *testing.T) {
	c := newTrio(t, 1)
	c.append(c.leader(), values(t, "one"))
	c.settle()
	c.add(2, []uint64{1})
	for i := 0; ; i++ {
		require.Less(t, i, 200)
		lead := c.leader()
		done := c.all[lead].core.Membership.Reshape([]uint64{2}, nil)
		c.step(lead)
		c.tick()
		if done {
			require.Equal(t, uint64(2), lead)
			break
		}
	}
	delete(c.all, 1)
	c.append(2, values(t, "two"))
	c.settle()
	c.requireEnd(2)
}

func TestALeaderDoesNotLeaveToThoseWhoWouldBeNoMajority(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	a, b := l%3+1, (l+1)%3+1
	c.all[a].down = true
	c.add(4, []uint64{1, 2, 3})
	// Wanted are the one that is down and a new one; of the others each could
	// hand over to the other for ever.
	moves := 0
	for range 200 {
		before := c.leader()
		c.all[before].core.Membership.Reshape([]uint64{a, 4}, nil)
		c.step(before)
		c.tick()
		if c.leader() != before {
			moves++
		}
	}
	require.Less(t, moves, 5, "from %d to %d", l, b)
}

func TestAReplicaThatHasLostWhatItAcknowledgedEndsAlone(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	for range 5 {
		c.append(l, values(t, "x"))
		c.settle()
	}
	f := l%3 + 1
	old := &member{log: memory.New(bootstrapOf(t, 1, 2, 3))}
	hard := c.all[f].log.HardState()
	core, err := newCore(f, old.log, segment.HardState{Term: hard.Term, Vote: hard.Vote, Commit: 1})
	require.NoError(t, err)
	old.core = core
	c.all[f] = old
	for range 5 {
		c.tick()
	}
	require.NotNil(t, old.core.Lifecycle.Failed(), "a data directory brought back from an old copy")
	_, _, err = old.core.Group.storage.tail.Bounds()
	for _, err := range []error{old.core.Lifecycle.Failed(), err} {
		require.ErrorIs(t, err, &record.Refusal{Reason: record.NotLeader}, "a final answer would be wrong for a client that knows this replica alone")
	}
	c.append(l, values(t, "the others go on"))
	c.settle()
}

func bootstrapOf(t *testing.T, voters ...uint64) segment.Bootstrap {
	b, err := Bootstrap(voters)
	require.NoError(t, err)
	return b
}

func trimAll(t *testing.T, log segment.Log, below uint64) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = log.Trim(below)
		require.NoError(t, err)
	}
}
