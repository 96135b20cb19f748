package core

import (
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// Core is the part of a replica that must be right: Raft, the sequencer and
// the tail, driven by one owner. Inputs are method calls; Advance returns what
// the owner has to do about them. The core itself only reads the log.
//
// Bounds of indexes at any time:
//
//	first-1 <= applied <= min(commit, durable) <= last
type Core struct {
	id        uint64
	raft      *raft.RawNode
	storage   *storage
	tail      *tail.Tail
	table     *sequence.Table
	sequencer *sequence.Sequencer
	logger    *slog.Logger

	now Now
	// out gathers what comes out; given is what Advance returned last.
	out, given Output

	// Requests that wait for their turn to be proposed, oldest first.
	queue    []*Request
	queued   int               // bytes of the appends in queue
	expiring int               // ends of sessions in queue whose leases have run out
	decided  []sequence.Answer // scratch of decide
	// Entries given to Raft and not yet committed, oldest first.
	proposals []proposal
	drains    uint64 // so far, of the queue into proposals
	// How many of proposals Raft has not given an index yet; they are the last.
	unplaced int
	// written is to be told of the write that is being made, see noticed.
	written []func()

	opened  uint64 // what was known to be committed when this core began
	commit  uint64 // newest index known committed
	applied uint64 // newest index folded into the table
	// durable is the newest index whose write is known to be durable, and which no
	// write that is under way replaces.
	durable uint64
	// jump is the index of the newest fast-forward that has committed. It moves
	// start and end together, so nothing behind it is shown before it has been
	// applied.
	jump uint64
	// starts are first indexes of segments whose snapshot is not taken yet.
	starts []uint64
	// installed is the index of the newest snapshot that replaced the log; the
	// files follow, and then begin behind it.
	installed uint64
	// short: what is stored begins behind the start of the log, see missing.
	short shortage

	leader  uint64 // replica id of the leader as Raft knows it; 0: none
	term    uint64
	leading bool
	// leaderReady is true from the first committed entry of this leader's own term
	// until leadership ends. Only then is the sequencer complete.
	leaderReady bool
	// firstLeader: nobody has led this log yet, and this replica is the one to begin.
	firstLeader         bool
	ticksWithoutLeader  int // ticks without a leader
	ticksSinceHeartbeat int // ticks since the leader was heard of
	electionDelay       int // ticks until this replica starts an election, see PeerGone; 0: it does not
	// room is what this disk has room for; trimmed is the index of the newest
	// trim that was applied. See room.go.
	room    sequence.Room
	trimmed uint64

	// highLatency: entries take much longer to their commit than to this disk, so the
	// time between is the network's. See mayFly.
	highLatency bool
	handover    handover
	slowness    slowness
	stalled     bool // the disk hangs, see stall
	heard       heard
	reshaping   uint64 // index of the newest change of the configuration
	// covering is the index of an entry that this leader has proposed since the
	// configuration changed last, see ConfigurationDurable; 0: none.
	covering uint64
	address  func(replica uint64) string
	// committed is Config.Committed; nil: nobody measures.
	committed func(queued, took time.Duration)

	confirm    confirmations
	failed     *record.Refusal
	quietTicks int // ticks in which nothing happened at all
	// busy is when the newest entry came, in monotonic ms. idle: that is long ago,
	// and memory that serves a busy log has been released.
	busy int64
	idle bool

	snapshotTicks int // since followers with a snapshot were looked at

	awaiting  []func() // called once the leader is ready
	leaving   []func() // called once a handover is over
	replaying []func() // called once applied has reached opened
	draining  []func() // called when nothing waits any more
	closed    bool     // takes no more appends: the replica is shutting down
	stopping  bool     // the loop ends after this round
}

// Now is the time as the owner of a core sees it.
type Now struct {
	Monotonic int64 // ms, never goes back; leases
	Unix      int64 // ms; stamps entries
	Nano      int64 // ns of the same clock as Monotonic, to measure with; 0: nobody does
}

// Limits of a core, and why.
const (
	// maxDrains bounds the drains of the queue that are not on this disk yet: one
	// syncing, one forming. More only makes the entries smaller (measured: -40 %).
	maxDrains = 2

	// windowBytes bounds the appends uncommitted at once across slow links: a
	// gigabit for half a second.
	windowBytes = 64 << 20

	// highLatencyMillis between a write here and its commit make a link slow: a
	// follower's disk alone seldom takes so long.
	highLatencyMillis = 5

	// maxQueuedBytes bounds the appends that wait for their turn. The gRPC port
	// holds back before; this is for programs that embed a node.
	maxQueuedBytes = 256 << 20

	// TickMillis is the length of a tick.
	TickMillis = 50

	// A follower that hears nothing for 500 to 1000 ms starts an election; it hears of
	// an idle leader every 100 ms.
	electionTicks    = 10
	heartbeatTicks   = 2
	firstLeaderTicks = 6
	// idleAfter ticks in which nothing happened the log is idle: only every
	// IdleEvery-th tick is still one. Ten seconds, and two ticks a second: a
	// thousand idle logs then cost what a hundred did. Whatever happens wakes
	// all replicas up, the loss of a node too, so that an idle log gets a new
	// leader as fast as a busy one unless a disk dies silently under its leader.
	idleAfter = 200
	IdleEvery = 10
	// idleMillis without a new entry make a log release memory.
	idleMillis = 10_000
)

// Request is one append or command that waits for its answer.
type Request struct {
	Append  *sequence.Append // either this
	Command *record.Command  // or this
	// Done gets the answer exactly once, on the core's loop; it must not
	// block. May be nil.
	Done func(sequence.Answer)
	// Written, if not nil, is told the answer of an append that was accepted
	// once this leader has written it, before it is durable; at most once, from
	// any goroutine. It must not block. Done follows all the same.
	Written func(sequence.Answer)

	Arrived int64 // see Now.Nano
	expiry  bool  // counted in Core.expiring
}

func (r *Request) bytes() int {
	if r.Append == nil {
		return 0
	}
	return r.Append.Bytes
}

// Output is what the owner of a core has to do, in this order: hand over the
// writes, send the messages, deliver the answers, save snapshots, recycle.
type Output struct {
	Writes    []Write
	Messages  []*raftpb.Message
	Answers   []Answered
	Snapshots []Snapshot
	// Feeds are ranges to be read from the log, see Fed.
	Feeds []Feed
	// Base: the snapshot at the start of the log is to be read, see BaseLoaded.
	Base bool
	// Recycle, if not 0, says that no reader needs records below it any more.
	Recycle record.Offset
	// Damaged tells what the stored log turned out to be, see Options.Damaged.
	Damaged error
}

// Feed is a range of entries [Lo, Hi) that a follower who lags needs.
type Feed struct{ Lo, Hi uint64 }

// Write is bytes to make durable. The core must be told with Written.
type Write struct {
	segment.Write
	// Install, if any, comes before the rest.
	Install   *Install
	responses []*raftpb.Message
}

// Waits reports whether something waits for the write to be durable.
func (w *Write) Waits() bool { return w.MustSync || w.Install != nil || len(w.responses) > 0 }

// Answered is an answer on its way to who asked.
type Answered struct {
	Done   func(sequence.Answer)
	Answer sequence.Answer
}

// Snapshot is the state of the log as of Index, for the segment after it. It is
// encoded beside the loop, see upkeep: that takes long for many sessions.
type Snapshot struct {
	Index, Term uint64
	Conf        []byte
	Table       *sequence.Table // a copy
}

// Encode returns the content of the snapshot.
func (s *Snapshot) Encode() []byte { return encodeState(s.Conf, s.Table.Snapshot(nil)) }

// Config of a core.
type Config struct {
	ID        uint64 // replica id, never reused
	Log       segment.Log
	HardState segment.HardState
	Memory    *budget.Memory // the node's, which the log shares with others
	Logger    *slog.Logger
	// FirstLeader lets this replica of a new log start an election without waiting for an
	// election timeout.
	FirstLeader bool
	// Address returns where the clients of a replica's node go. May be nil.
	Address func(replica uint64) string
	// Committed is called for each entry proposed here that has committed: for how
	// long its oldest request had waited, and how long it took from there. It must
	// not block. May be nil.
	Committed func(queued, took time.Duration)
}

// New opens a core on a recovered log.
func New(o Config) (*Core, error) {
	log, hard := o.Log, o.HardState
	index, term, data, err := log.LoadSnapshot()
	if err != nil {
		return nil, fmt.Errorf("load snapshot: %w", err)
	}
	conf, table, err := decodeState(data)
	if err != nil {
		return nil, fmt.Errorf("read snapshot at index %d: %w", index, err)
	}
	last := log.LastIndex()
	lastTerm, err := log.Term(last)
	if err != nil {
		return nil, fmt.Errorf("read term of the last index %d: %w", last, err)
	}
	// What the snapshot covers was committed when it was taken.
	hard.Commit = max(hard.Commit, index)
	c := &Core{
		id: o.ID, logger: o.Logger, table: table, sequencer: sequence.New(table),
		short:   shortage{yes: log.StartOffset() > table.Start()},
		tail:    tail.New(o.Memory.Tails, max(table.Start(), log.StartOffset()), table.End()),
		address: o.Address, firstLeader: o.FirstLeader, committed: o.Committed,
		applied: index, opened: hard.Commit, commit: hard.Commit, durable: last, term: hard.Term,
	}
	c.storage = &storage{
		tail: c.tail, log: log, last: last, lastTerm: lastTerm, hard: hard, conf: conf, applied: index, appliedTerm: term, logger: o.Logger,
	}
	if c.address == nil {
		c.address = func(uint64) string { return "" }
	}
	config := &raft.Config{
		ID: o.ID, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: c.storage, Applied: index, AsyncStorageWrites: true,
		MaxSizePerMsg:            1 << 20,
		MaxCommittedSizePerReady: 64 << 20,
		MaxInflightMsgs:          256,
		MaxInflightBytes:         64 << 20,
		CheckQuorum:              true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: raftLogger{o.Logger},
	}
	c.protect(func() {
		if c.raft, err = raft.NewRawNode(config); err == nil && c.soleVoter() {
			err = c.raft.Campaign() // nobody else can lead: do not wait for an election timeout
		}
	})
	if c.failed != nil {
		return nil, c.failed
	}
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	return c, nil
}

// SetNow tells the time. The owner calls it before each round of inputs.
func (c *Core) SetNow(now Now) { c.now = now }

// Tick is a lapse of TickMillis.
func (c *Core) Tick() {
	if c.failed != nil {
		return
	}
	c.quietTicks++
	c.heard.tick()
	c.protect(c.raft.Tick)
	c.confirm.tick()
	c.handover.tick()
	c.storage.feed.tick()
	c.storage.base.tick()
	c.delayedElection()
	c.leaderless()
	c.unansweredQuestions()
	c.missing()
	c.release()
	c.handOverStalled()
	if !c.leaderReady {
		return
	}
	c.retrySnapshots()
	c.handOverBase()
	if c.slowness.tick(c.now.Monotonic, c.commit, c.durable) && c.HandOver(0) {
		c.logger.Warn("this disk is slower than those of the followers; handing leadership over", "to", c.handover.to)
		c.slowness = slowness{}
	}
	c.sequencer.Tick(c.now.Monotonic)
	c.expire()
}

// expire ends sessions whose leases have run out. Until those that it has queued
// are decided it queues no others, which would be the same again.
func (c *Core) expire() {
	if c.expiring > 0 || c.sequencer.Room() == sequence.RoomForTrims {
		return
	}
	for _, id := range c.sequencer.Expired() {
		c.queue = append(c.queue, &Request{Command: &record.Command{Kind: record.ExpireSession, Session: id}, expiry: true})
		c.expiring++
	}
}

// Unreachable tells that a message to a replica was not sent.
func (c *Core) Unreachable(replica uint64) {
	if c.failed == nil {
		c.protect(func() { c.raft.ReportUnreachable(replica) })
	}
}

// snapshotLost tells that a snapshot did not reach a replica.
func (c *Core) SnapshotLost(replica uint64) {
	if c.failed == nil {
		c.protect(func() { c.raft.ReportSnapshot(replica, raft.SnapshotFailure) })
	}
}

// retrySnapshots lets Raft look anew at followers who were sent a snapshot: it
// may have been lost on the way without a word, and nothing else follows it.
func (c *Core) retrySnapshots() {
	if c.snapshotTicks++; c.snapshotTicks < 4*electionTicks {
		return
	}
	c.snapshotTicks = 0
	var waiting []uint64
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot {
			waiting = append(waiting, id)
		}
	})
	for _, id := range waiting {
		c.SnapshotLost(id)
	}
}

// has handles what Raft has taken in this round and reports whether the log
// reaches index. A leader tells no follower of commits beyond what that one has
// acknowledged.
func (c *Core) has(index uint64) bool {
	c.protect(c.advance)
	return c.failed != nil || index <= c.storage.last
}

func (c *Core) soleVoter() bool {
	voters := c.storage.conf.GetVoters()
	return len(voters) == 1 && voters[0] == c.id
}

// Step takes a message of a peer, except the entries that the disk has no room
// for.
func (c *Core) Step(m *raftpb.Message) (err error) {
	if c.failed != nil || !c.admit(m) {
		return nil
	}
	if m.GetFrom() == c.leader {
		c.ticksSinceHeartbeat = 0
	}
	if c.leading {
		c.heard.from(m.GetFrom())
	}
	if m.GetType() == raftpb.MsgHeartbeat && m.GetCommit() > c.storage.last && !c.has(m.GetCommit()) {
		c.out.Damaged = fmt.Errorf("entries up to %d that this replica has acknowledged are gone, it ends at %d: %w",
			m.GetCommit(), c.storage.last, ErrForgot)
		c.Fail(record.Refuse(record.Corrupt, "%v", c.out.Damaged))
		return nil
	}
	if c.contradicted(m) {
		return nil
	}
	if t := m.GetType(); t != raftpb.MsgHeartbeat && t != raftpb.MsgHeartbeatResp && m.GetFrom() != c.id {
		c.stir()
	}
	c.protect(func() { err = c.raft.Step(m) })
	return err
}

// Written tells that a write, and all before it, are durable. Rolled are the
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
		c.protect(c.advance)
		c.failBroken(c.checkBounds())
	}
	for _, lo := range c.storage.feed.wanted {
		c.out.Feeds = append(c.out.Feeds, Feed{lo, c.applied + 1})
	}
	c.storage.feed.wanted = c.storage.feed.wanted[:0]
	c.out.Base = c.storage.base.begin()
	c.out, c.given = c.given, c.out
	return &c.given
}

func (c *Core) advance() {
	for c.failed == nil {
		c.propose()
		c.askHandover()
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
			c.firstLeader, c.electionDelay = false, 0
		}
	}
	if rd.HardState != nil && rd.HardState.GetTerm() != c.term {
		c.endTerm(rd.HardState.GetTerm())
	}
	if rd.SoftState != nil {
		if leading := rd.SoftState.RaftState == raft.StateLeader; leading != c.leading {
			c.endTerm(c.term)
			c.leading = leading
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
			c.markEnding(m)
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
	c.confirm.release(c.applied)
}

// endTerm drops what rested on leading until now.
func (c *Core) endTerm(term uint64) {
	c.term, c.leading = term, false
	c.handover, c.slowness, c.highLatency = handover{}, slowness{}, false
	c.covering = 0
	c.storage.feed.clear()
	c.heard.reset()
	notLeader := c.notLeader()
	unknown := record.Refuse(record.OutcomeUnknown, "leadership ended before the append was committed; it may be in the log")
	c.endLeadership(notLeader, unknown)
}

// endLeadership answers everything that waits: what was accepted with unknown,
// the rest with refused.
func (c *Core) endLeadership(refused, unknown *record.Refusal) {
	for i := range c.proposals {
		for _, a := range c.proposals[i].answers {
			r := unknown
			if a.Answer.Refusal != nil {
				r = refused
			}
			c.answer(a.Done, sequence.Answer{Refusal: r})
		}
	}
	c.proposals, c.unplaced = nil, 0
	for _, r := range c.queue {
		c.answer(r.Done, sequence.Answer{Refusal: refused})
	}
	c.queue, c.queued, c.expiring = nil, 0, 0
	if c.failed != nil {
		c.confirm.refuse(refused)
	} else {
		c.confirm.endTerm(refused)
	}
	if c.leaderReady {
		c.leaderReady = false
		c.sequencer.StopLeading()
	}
}

// commitTo answers the proposals that have committed and shows readers their
// records, which are still in memory.
func (c *Core) commitTo(commit uint64) {
	if commit <= c.commit {
		return
	}
	from := c.commit + 1
	c.commit = commit
	c.commitProposals(commit)
	if c.jump > c.applied {
		return
	}
	end := record.Offset(0)
	for i := from; i <= commit; i++ {
		e, ok := c.tail.At(i)
		if !ok {
			break
		}
		if e.End != e.First+record.Offset(e.Count) {
			c.jump = i
			break
		}
		end = e.End
	}
	c.tail.Publish(0, end)
}

// notLeader refuses what only the leader can do, and names it if it is known.
func (c *Core) notLeader() *record.Refusal {
	if c.leader == 0 || c.leader == c.id {
		return record.Refuse(record.NotLeader, "the log has no leader at the moment")
	}
	r := record.Refuse(record.NotLeader, "another node leads the log")
	r.Leader = c.address(c.leader)
	return r
}

func (c *Core) answer(done func(sequence.Answer), a sequence.Answer) {
	if done != nil {
		c.out.Answers = append(c.out.Answers, Answered{done, a})
	}
}

// Clear empties the lists, dropping what they refer to.
func (o *Output) Clear() {
	clear(o.Writes)
	clear(o.Messages)
	clear(o.Answers)
	clear(o.Snapshots)
	o.Writes, o.Messages, o.Answers, o.Snapshots = o.Writes[:0], o.Messages[:0], o.Answers[:0], o.Snapshots[:0]
	o.Feeds = o.Feeds[:0]
	o.Recycle, o.Damaged = 0, nil
}
