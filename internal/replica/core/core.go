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
// It is made of parts that own their state, each in a file of its name; the methods
// that an owner calls are theirs or the core's. See checkBounds for what holds of
// the indexes.
type Core struct {
	*group      // who the replicas are, who leads, how far they follow
	*round      // the time, and the output
	*handover   // leadership given to another replica on purpose
	*membership // changes of the configuration
	distance    // how far the replicas are from each other
	election    // what to do without a leader
	supply      // what followers who lag need from the disk
	*proposer   // requests that wait, and how they become proposals
	reads       // linearizable reads, and questions about sessions
	*lifecycle  // of this replica, wanted or not
	*applier    // what commits
	storer      // what is written
	*activity   // what an idle log costs
	waiters     // those who wait for a milestone
	hashing     // for the digest
	space       *space
	short       *shortage
	proposals   *proposals
	sessions    sessionMemory // the part of the table in the node's memory

	given Output // what Advance returned last
}

// SetNow sets the time. The owner calls it before each round of inputs.
func (c *Core) SetNow(now Now) { c.now = now }

// Tick is a lapse of TickMillis.
func (c *Core) Tick() {
	if c.failed != nil {
		return
	}
	c.quietTicks++
	c.hashing.tick()
	if c.distance.tick() {
		c.tickRaft()
	}
	c.short.tick()
	c.release()
	c.leaveDisk()
	if c.role == follower {
		return
	}
	// It may be this follower's acknowledgement that the leader needs to be ready.
	c.retrySnapshots()
	c.leaveWithoutBase()
	if c.role != leaderReady {
		return
	}
	c.leaveSlowDisk(c.now.Monotonic)
	c.leaveJoint()
	c.sequencer.Tick(c.now.Monotonic)
	c.expire()
}

// has handles what Raft has taken in this round and reports whether the log
// reaches index. A leader reports to no follower commits beyond what that follower
// has acknowledged.
func (c *Core) has(index uint64) bool {
	c.guard(c.advance)
	return c.failed != nil || index <= c.storage.last
}

// Append takes a request to append or to run a command. Advance returns its answer
// once what the answer depends on has committed.
func (c *Core) Append(r *Request) {
	switch {
	case c.failed != nil:
		c.answer(r.Done, sequence.Answer{Refusal: c.failed})
	case c.phase != open:
		c.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.ShuttingDown, "this node is shutting down")})
	case !c.Leads():
		c.answer(r.Done, sequence.Answer{Refusal: c.notLeader()})
	case c.queued > maxQueuedBytes:
		c.answer(r.Done, sequence.Answer{Refusal: record.Refuse(record.Busy, "%d bytes of appends wait for this log", c.queued)})
	default:
		c.woken()
		c.stir()
		r.dequeued = c.now.Nano
		c.queue = append(c.queue, r)
		c.queued += r.bytes()
	}
}

// Step takes a message of a peer, except the entries that the disk or the memory has no
// room for.
func (c *Core) Step(m *raftpb.Message) (err error) {
	if c.failed != nil || !c.space.admit(m) || c.crowded(m) {
		return nil
	}
	if m.GetFrom() == c.leader {
		c.ticksSinceHeartbeat = 0
	}
	if c.Leads() {
		c.heard.from(m.GetFrom())
		if m.GetType() == raftpb.MsgAppResp && !m.GetReject() && m.GetTerm() == c.term && m.GetFrom() != c.id {
			c.proposals.acknowledged(m.GetFrom(), m.GetIndex(), c.now.Nano)
		}
	}
	if m.GetType() == raftpb.MsgHeartbeat && m.GetCommit() > c.storage.last && !c.has(m.GetCommit()) {
		c.out.Damaged = fmt.Errorf("entries up to %d that this replica has acknowledged are gone, it ends at %d: %w",
			m.GetCommit(), c.storage.last, ErrEndMissing)
		c.Fail(record.Refuse(record.Corrupt, "%v", c.out.Damaged))
		return nil
	}
	if c.contradicted(m) {
		return nil
	}
	if t := m.GetType(); t != raftpb.MsgHeartbeat && t != raftpb.MsgHeartbeatResp && m.GetFrom() != c.id {
		c.stir()
	}
	c.guard(func() { err = c.raft.Step(m) })
	return err
}

// Written records that a write, and all before it, are durable. Rolled are the
// first indexes of the segments it began.
func (c *Core) Written(w Write, rolled []uint64) {
	c.starts = append(c.starts, rolled...)
	c.madeDurable(&w)
	for _, m := range w.responses {
		if m.GetTo() != c.id {
			c.out.Messages = append(c.out.Messages, m)
			continue
		}
		if err := c.Step(m); err != nil {
			c.logger.Debug("raft refused a storage response", "error", err)
		}
	}
}

// Advance works off all inputs and returns what to do about them. The output
// is valid until the next call.
func (c *Core) Advance() *Output {
	c.given.Clear()
	if c.failed == nil {
		c.sequencer.SetMemoryLeft(c.sessions.left())
		c.guard(c.advance)
		c.hashing.ask()
		c.sessions.count(c.storage.table.Bytes())
		c.failBroken(c.checkBounds())
	}
	for _, w := range c.storage.feed.Wanted {
		follower, need := c.needs(w.Lo)
		c.out.Feeds = append(c.out.Feeds, Feed{w.Lo, c.storage.applied + 1, w.Bytes, follower, need})
	}
	c.storage.feed.Wanted = c.storage.feed.Wanted[:0]
	c.out.Base = c.storage.base.Begin()
	c.out, c.given = c.given, c.out
	return &c.given
}

func (c *Core) advance() {
	for c.failed == nil {
		c.propose()
		c.handover.ask()
		c.askConfirmation()
		if !c.raft.HasReady() {
			return
		}
		c.handle(c.raft.Ready())
	}
}

func (c *Core) handle(rd raft.Ready) {
	if rd.SoftState != nil {
		c.leader = rd.SoftState.Lead
		if c.leader != 0 {
			c.firstLeader, c.delay = false, 0
		}
	}
	if rd.HardState != nil && rd.HardState.GetTerm() != c.term {
		c.endTerm(rd.HardState.GetTerm())
	}
	if rd.SoftState != nil {
		if leads := rd.SoftState.RaftState == raft.StateLeader; leads != c.Leads() {
			c.endTerm(c.term)
			if leads {
				c.role = elected
			}
		}
	}
	var applies *raftpb.Message
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			c.store(m)
		case raft.LocalApplyThread:
			applies = m
		default:
			c.space.markEnding(m)
			c.out.Messages = append(c.out.Messages, m)
		}
	}
	if rd.HardState != nil {
		c.commitTo(rd.HardState.GetCommit())
	}
	if applies != nil && c.failed == nil {
		c.apply(applies)
	}
	c.confirm.read(rd.ReadStates)
	c.confirm.release(c.storage.applied)
}

// endTerm drops what rested on leading until now.
func (c *Core) endTerm(term uint64) {
	c.term = term
	c.handover.endTerm()
	c.proposals.highLatency = false
	c.proposals.gather = gather{sync: c.proposals.gather.sync}
	c.membership.endTerm()
	c.storage.feed.Clear()
	c.heard.reset()
	notLeader := c.notLeader()
	unknown := record.Refuse(record.OutcomeUnknown, "leadership ended before the append was committed; it may be in the log")
	c.endLeadership(notLeader, unknown)
}
