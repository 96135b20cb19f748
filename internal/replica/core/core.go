package core

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// Core is the part of a replica that must be right: Raft, the sequencer and
// the tail, driven by one owner. Inputs are method calls; Advance returns what
// the owner has to do about them. The core itself only reads the log.
//
// It is made of parts that own their state, each in a file of its name. An owner calls the
// core, or a part by its name; calls between parts go one way, from the core down to the
// group and the round, which all of them share. See checkBounds for what holds of the
// indexes.
type Core struct {
	// What all parts share: the replicas and the log as this one knows them, and what goes in
	// and out in this round.
	Group *group
	round *round

	Handover   *handover   // leadership given to another replica on purpose
	Membership *membership // changes of the configuration
	Distance   distance    // how far the replicas are from each other
	Election   election    // what to do without a leader
	Supply     supply      // what followers who lag need from the disk
	Reads      *reads      // linearizable reads, and questions about sessions
	Lifecycle  *lifecycle  // of this replica, wanted or not
	Applier    *applier    // what commits
	Activity   *activity   // what an idle log costs
	Waiters    waiters     // those who wait for a milestone
	Hashing    hashing     // for the digest

	proposer  *proposer // requests that wait, and how they become proposals
	proposals *proposals
	confirm   *confirmations
	storer    storer // what is written
	space     *space
	short     *shortage
	sessions  sessionMemory // the part of the table in the node's memory

	given Output // what Advance returned last
}

// SetNow sets the time. The owner calls it before each round of inputs.
func (c *Core) SetNow(now Now) { c.round.now = now }

// Tick is a lapse of TickMillis.
func (c *Core) Tick() {
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
	// It may be this follower's acknowledgement that the leader needs to be ready.
	c.Supply.retrySnapshots()
	c.Handover.leaveWithoutBase()
	if c.Group.role != leaderReady {
		return
	}
	c.Handover.leaveSlowDisk(c.round.now.Monotonic)
	c.Membership.leaveJoint()
	c.proposer.sequencer.Tick(c.round.now.Monotonic)
	c.proposer.expire()
}

// tickRaft is a lapse of time for what waits for other replicas.
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
		c.confirm.refuse(record.Refuse(record.NotLeader, "nothing is heard from the leader of the log"))
	}
}

// SetRoom says what this replica's disk has room for, and what the disks of a
// majority have room for, which counts where this replica leads. Heirs are the other
// voters that have room for that; one of them is to lead where this replica's disk has less, and
// where it hands over for another reason.
func (c *Core) SetRoom(own, majority sequence.Room, heirs ...uint64) {
	c.space.own, c.space.accepts = own, max(own, majority)
	c.proposer.sequencer.SetRoom(c.space.accepts)
	c.proposer.sequencer.SetRoomElsewhere(own > majority)
	c.Handover.setHeirs(heirs, own > majority)
}

// has handles what Raft has taken in this round and reports whether the log
// reaches index. A leader reports to no follower commits beyond what that follower
// has acknowledged.
func (c *Core) has(index uint64) bool {
	c.Lifecycle.guard(c.advance)
	return c.Group.failed != nil || index <= c.Group.storage.last
}

// Append takes a request to append or to run a command. Advance returns its answer
// once what the answer depends on has committed.
func (c *Core) Append(r *Request) {
	switch {
	case c.Group.failed != nil:
		c.round.answer(r.Done, sequence.Answer{Refusal: c.Group.failed})
	case c.Lifecycle.phase != open:
		c.round.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.ShuttingDown, "this node is shutting down")})
	case !c.Group.Leads():
		c.round.answer(r.Done, sequence.Answer{Refusal: c.Group.notLeader()})
	case c.proposer.queued > c.proposals.limits.Queued:
		c.round.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.Busy, "%d bytes of appends wait for this log", c.proposer.queued)})
	default:
		c.Activity.woken()
		c.Group.stir()
		r.dequeued = c.round.now.Nano
		c.proposer.queue = append(c.proposer.queue, r)
		c.proposer.queued += r.bytes()
	}
}

// Step takes a message of a peer, except the entries that the disk or the memory has no
// room for.
func (c *Core) Step(m *raftpb.Message) (err error) {
	if c.Group.failed != nil || !c.space.admit(m) || c.storer.crowded(m) {
		return nil
	}
	if m.GetFrom() == c.Group.leader {
		c.Election.ticksSinceHeartbeat = 0
	}
	if c.Group.Leads() {
		c.Group.heard.from(m.GetFrom())
		if m.GetType() == raftpb.MsgAppResp && !m.GetReject() && m.GetTerm() == c.Group.term && m.GetFrom() != c.Group.id {
			c.proposals.acknowledged(m.GetFrom(), m.GetIndex(), c.round.now.Nano)
		}
	}
	if m.GetType() == raftpb.MsgHeartbeat && m.GetCommit() > c.Group.storage.last && !c.has(m.GetCommit()) {
		c.round.out.Damaged = fmt.Errorf("entries up to %d that this replica has acknowledged are gone, it ends at %d: %w",
			m.GetCommit(), c.Group.storage.last, ErrEndMissing)
		// The leader has what is gone, so callers are sent on: this is no final answer for one that
		// knows no other node yet, and the replica is renewed.
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

// Written records that a write, and all before it, are durable. Rolled are the
// first indexes of the segments it began.
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

// Advance works off all inputs and returns what to do about them. The output
// is valid until the next call.
func (c *Core) Advance() *Output {
	c.given.Clear()
	if c.Group.failed == nil {
		c.proposer.sequencer.SetMemoryLeft(c.sessions.left())
		c.Lifecycle.guard(c.advance)
		c.Hashing.ask()
		c.sessions.count(c.Group.storage.table.Bytes())
		c.Lifecycle.failBroken(c.checkBounds())
	}
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

// endTerm drops what rested on leading until now.
func (c *Core) endTerm(term uint64) {
	c.Group.term = term
	c.Handover.endTerm()
	c.proposals.highLatency = false
	c.proposals.gather = gather{sync: c.proposals.gather.sync}
	c.Membership.endTerm()
	c.Group.storage.feed.Clear()
	c.Group.heard.reset()
	c.Reads.early = nil // whoever asked asks the next leader
	notLeader := c.Group.notLeader()
	unknown := record.Refuse(record.OutcomeUnknown, "leadership ended before the append was committed; it may be in the log")
	c.proposer.endLeadership(notLeader, unknown)
}

// Release gives back what the core holds of the node's memory, when its replica has
// ended.
func (c *Core) Release() {
	c.Group.storage.tail.Release()
	c.Group.storage.feed.Release()
	c.sessions.count(0)
	c.proposer.sequencer.StopLeading() // which takes its sessions from those of their owners
}
