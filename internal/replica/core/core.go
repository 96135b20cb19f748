// Package core decides for one replica of one log: it drives Raft, the sequencer and the tail as
// one state machine. Inputs are method calls; Advance returns what the caller has to write, send
// and answer.
//
// It does no I/O of its own, reads no clock and starts no goroutine: SetNow sets the time, and
// while a replica starts it reads the stored log through the given segment.Log. Start with Core
// in core.go.
package core

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Core is the part of a replica that decides: it drives Raft, the sequencer and the tail. Inputs
// are method calls; Advance returns what the caller has to do. The core itself only reads the
// log. It must be used by one goroutine at a time.
//
// It consists of parts that own their state, each in a file of its name. A caller uses the core,
// or a part by its name; calls between parts go one way, from the core down to the group and the
// round, which all of them share. checkBounds describes the invariants of the indexes.
type Core struct {
	// Shared by all parts: the replicas and the log as known here, and the input and output of this
	// round.
	Group *group
	round *round

	Handover   *handover   // transfer of leadership to another replica
	Membership *membership // changes of the configuration
	Distance   distance    // distance of the replicas
	Election   election    // behavior without a leader
	Supply     supply      // entries for lagging followers, read from disk
	Reads      *reads      // linearizable reads, and queries of sessions
	Lifecycle  *lifecycle  // end of this replica, wanted or not
	Applier    *applier    // application of committed entries
	Activity   *activity   // cost of an idle log
	Waiters    waiters     // callers that wait for a milestone
	Hashing    hashing     // for the digest
	Checks     checks      // memory of the keys by which checks are decided
	Writers    *writers    // who waits for the writer lease, or for its next holder

	proposer  *proposer // waiting requests, and how they become proposals
	proposals *proposals
	confirm   *confirmations
	storer    storer // writes
	space     *space
	short     *shortage
	sessions  sessionMemory // memory of the table's sessions

	given Output // the previous result of Advance
}

// SetNow sets the time. The caller calls it before each round of inputs.
func (c *Core) SetNow(now Now) {
	c.round.now = now
	if c.Group.role == leaderReady {
		c.proposer.sequencer.Pass(now.lease())
	}
}

// Tick does what is due. It is to be called every TickMillis, and calls before Activity.Due may be
// left out.
func (c *Core) Tick() {
	for range c.Activity.pass() {
		c.tick()
	}
	if c.Group.failed == nil && c.Group.role == leaderReady {
		c.proposer.sequencer.Tick(c.round.now.lease())
		c.proposer.expire()
	}
}

// tick counts one tick.
func (c *Core) tick() {
	if c.Group.failed != nil {
		return
	}
	c.Group.quietTicks++
	c.Hashing.tick()
	if c.Distance.tick() {
		c.tickRaft()
	}
	c.short.tick()
	c.Activity.release()
	c.Handover.leaveDisk()
	if c.Group.role == follower {
		return
	}
	// The leader may need this follower's acknowledgement to be ready.
	c.Supply.retrySnapshots()
	c.Handover.leaveWithoutBase()
	if c.Group.role != leaderReady {
		return
	}
	c.Handover.leaveSlowDisk(c.round.now.Monotonic)
	c.Membership.leaveJoint()
}

// hear records a message of the leader.
func (c *Core) hear() {
	if !c.Group.Leads() {
		for range c.Activity.heard() {
			c.tick()
		}
	}
	c.Election.ticksSinceHeartbeat = 0
}

// tickRaft advances the time of everything that waits for other replicas.
func (c *Core) tickRaft() {
	c.Group.heard.tick()
	c.Lifecycle.guard(c.Group.raft.Tick)
	c.confirm.tick()
	c.Handover.tick()
	c.Group.storage.feed.Tick()
	c.Group.storage.base.Tick()
	leaderless, silent := c.Election.tick()
	if leaderless {
		c.confirm.refuse(c.Group.notLeader())
	}
	if silent && !c.confirm.empty() {
		c.confirm.refuse(record.Refuse(record.NotLeader, "the leader of the log does not respond"))
	}
}

// SetRoom sets what this replica's disk has room for, and what the disks of a majority have room
// for, which counts if this replica leads. heirs are the other voters with room for that. One of
// them should lead if this replica's disk has less, or if it hands over for another reason.
func (c *Core) SetRoom(own, majority sequence.Room, heirs ...uint64) {
	c.space.own, c.space.accepts = own, max(own, majority)
	c.proposer.sequencer.SetRoom(c.space.accepts)
	c.proposer.sequencer.SetRoomElsewhere(own > majority)
	c.Handover.setHeirs(heirs, own > majority)
}

// has handles what Raft has received in this round and reports whether the log reaches index. A
// leader never reports commits to a follower beyond what that follower has acknowledged.
func (c *Core) has(index uint64) bool {
	c.Lifecycle.guard(c.advance)
	return c.Group.failed != nil || index <= c.Group.storage.last
}

// Append adds an append or a command. Advance returns its answer once everything on which the
// answer rests has committed.
func (c *Core) Append(r *Request) {
	switch {
	case c.Group.failed != nil:
		c.round.answer(r.Done, sequence.Answer{Refusal: c.Group.failed})
	case c.Lifecycle.phase != open:
		c.round.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.ShuttingDown, "this node is shutting down")})
	case !c.Group.Leads():
		c.round.answer(r.Done, sequence.Answer{Refusal: c.Group.notLeader()})
	case c.proposer.full() != nil:
		c.round.answer(r.Done, sequence.Answer{Refusal: c.proposer.full()})
	default:
		c.Activity.woken()
		c.Group.stir()
		r.dequeued = c.round.now.Nano
		c.proposer.queue = append(c.proposer.queue, r)
		c.proposer.queued += r.bytes()
	}
}

// Step processes a message of a peer, except entries for which the disk or the memory has no
// room.
func (c *Core) Step(m *raftpb.Message) (err error) {
	if c.Group.failed != nil || !c.space.admit(m) || c.storer.crowded(m) {
		return nil
	}
	if m.GetFrom() == c.Group.leader {
		c.hear()
	}
	if c.Group.Leads() {
		c.Group.heard.from(m.GetFrom())
		if m.GetType() == raftpb.MsgAppResp && !m.GetReject() && m.GetTerm() == c.Group.term && m.GetFrom() != c.Group.id {
			c.proposals.acknowledged(m.GetFrom(), m.GetIndex(), c.round.now.Nano)
		}
	}
	if m.GetType() == raftpb.MsgHeartbeat && m.GetCommit() > c.Group.storage.last && !c.has(m.GetCommit()) {
		c.round.out.Damaged = fmt.Errorf("entries up to %d that this replica acknowledged are missing, it ends at %d: %w",
			m.GetCommit(), c.Group.storage.last, ErrEndMissing)
		// The leader has the missing entries, so callers are redirected: for a caller that knows no
		// other node yet the answer is not final, and the replica is renewed.
		c.Lifecycle.Fail(record.Refuse(record.NotLeader, "%v", c.round.out.Damaged))
		return nil
	}
	if c.Lifecycle.contradicted(m) {
		return nil
	}
	if t := m.GetType(); t != raftpb.MsgHeartbeat && t != raftpb.MsgHeartbeatResp && m.GetFrom() != c.Group.id {
		c.Group.stir()
	}
	if c.Reads.tooEarly(m) {
		return nil
	}
	c.Lifecycle.guard(func() { err = c.Group.raft.Step(m) })
	return err
}

// Written records that a write, and all before it, are durable. rolled are the first indexes of
// the segments that it began.
func (c *Core) Written(w Write, rolled []uint64) {
	c.Applier.starts = append(c.Applier.starts, rolled...)
	c.storer.madeDurable(&w)
	for _, m := range w.responses {
		if m.GetTo() != c.Group.id {
			c.round.out.Messages = append(c.round.out.Messages, m)
			continue
		}
		if err := c.Step(m); err != nil {
			c.Group.logger.Debug("raft refused a storage response", "error", err)
		}
	}
}

// Advance processes all inputs and returns what to do about them. The output is valid until the
// next call.
func (c *Core) Advance() *Output {
	c.given.Clear()
	if c.Group.failed == nil {
		c.proposer.sequencer.SetMemoryLeft(c.sessions.left())
		c.Checks.bound()
		c.Lifecycle.guard(c.advance)
		c.Hashing.ask()
		c.Checks.count()
		c.sessions.count(c.Group.storage.table.Bytes())
		c.Lifecycle.failBroken(c.checkBounds())
	}
	c.Writers.show()
	for _, w := range c.Group.storage.feed.Wanted {
		follower, need := c.Supply.needs(w.Lo)
		c.round.out.Feeds = append(c.round.out.Feeds, Feed{w.Lo, c.Group.storage.applied + 1, w.Bytes, follower, need})
	}
	c.Group.storage.feed.Wanted = c.Group.storage.feed.Wanted[:0]
	c.round.out.Base = c.Group.storage.base.Begin()
	c.round.out, c.given = c.given, c.round.out
	return &c.given
}

func (c *Core) advance() {
	for c.Group.failed == nil {
		c.proposer.propose()
		c.Handover.ask()
		c.Reads.askConfirmation()
		if !c.Group.raft.HasReady() {
			return
		}
		c.handle(c.Group.raft.Ready())
	}
}

func (c *Core) handle(rd raft.Ready) {
	if rd.SoftState != nil {
		c.Group.leader = rd.SoftState.Lead
		if c.Group.leader != 0 {
			c.Election.firstLeader, c.Election.delay = false, 0
		}
	}
	if rd.HardState != nil && rd.HardState.GetTerm() != c.Group.term {
		c.endTerm(rd.HardState.GetTerm())
	}
	if rd.SoftState != nil {
		if leads := rd.SoftState.RaftState == raft.StateLeader; leads != c.Group.Leads() {
			c.endTerm(c.Group.term)
			if leads {
				c.Group.role = elected
			}
		}
	}
	var applies *raftpb.Message
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.storer.store(m)
		case raft.LocalApplyThread:
			applies = m
		default:
			c.space.markEnding(m)
			c.round.out.Messages = append(c.round.out.Messages, m)
		}
	}
	if rd.HardState != nil {
		c.storer.commitTo(rd.HardState.GetCommit())
	}
	if applies != nil && c.Group.failed == nil {
		c.Applier.apply(applies)
	}
	c.confirm.read(rd.ReadStates)
	c.confirm.release(c.Group.storage.applied)
}

// endTerm drops everything that rested on leading.
func (c *Core) endTerm(term uint64) {
	c.Group.term = term
	c.Handover.endTerm()
	c.proposals.highLatency = false
	c.proposals.gather = gather{sync: c.proposals.gather.sync}
	c.Membership.endTerm()
	c.Group.storage.feed.Clear()
	c.Group.heard.reset()
	c.Reads.early = nil // callers repeat the request at the next leader
	notLeader := c.Group.notLeader()
	unknown := record.Refuse(record.OutcomeUnknown, "leadership ended before the append was committed; it may be in the log")
	c.proposer.endLeadership(notLeader, unknown)
}

// Release releases the core's part of the node's memory after its replica has ended.
func (c *Core) Release() {
	c.Group.storage.tail.Release()
	c.Group.storage.feed.Release()
	c.sessions.count(0)
	c.proposer.sequencer.StopLeading() // so that its sessions no longer count for their principals
	c.Checks.count()
}
