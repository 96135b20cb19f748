package core

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

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
	// AtOnce has it do so without asking first whether it could win, and before the first tick.
	AtOnce bool
	// Elect is the first leader of a new log, which a replica that has never voted votes for before it is
	// asked to: the request is on its way. 0: nobody.
	Elect uint64
	// Stretch is that of Core.SetStretch; 0 is 1.
	Stretch int
	// HashEvery is how many bytes of batches are hashed together for the digest; 0 is DefaultHashEvery.
	HashEvery int
	// Address returns where the clients of a replica's node go. May be nil.
	Address func(replica uint64) string
	// Committed is called for each entry proposed here that has committed, with the stages of
	// its oldest request. It must not block. May be nil.
	Committed func(sequence.Times)
	// Acknowledged is called when another replica has acknowledged an entry that was proposed
	// here so long before; of each replica one entry is followed at a time. It must not
	// block. May be nil.
	Acknowledged func(replica uint64, after time.Duration)
}

// DefaultHashEvery is large enough to cost next to nothing each time.
const DefaultHashEvery = 1 << 20

// New opens a core on a recovered log.
func New(o Config) (*Core, error) {
	log, hard := o.Log, o.HardState
	index, term, data, err := log.LoadSnapshot()
	rotten := errors.Is(err, segment.ErrNoSnapshot) && log.FirstIndex() == bootstrapIndex+1
	if rotten {
		index, term, data, err = bootstrapIndex, bootstrapIndex, bootstrapState(log.ConfState()), nil
	}
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
	if hard.Commit, err = committedAtLeast(log, max(hard.Commit, index), last); err != nil {
		return nil, err
	}
	t := tail.New(o.Memory.Tails, max(table.Start(), log.StartOffset()), table.End())
	t.Publish(0, 0, table.Holds())
	g := &group{id: o.ID, logger: o.Logger, term: hard.Term, address: o.Address, storage: &storage{
		tail: t, log: log, table: table, last: last, lastTerm: lastTerm, hard: hard, conf: conf, logger: o.Logger,
		feed: lagging.Feed{Memory: o.Memory.Sending}, applied: index, appliedTerm: term, commit: hard.Commit, durable: last,
	}}
	ps := &proposals{committed: o.Committed, acks: ackTimes{report: o.Acknowledged}}
	h := &handover{group: g, proposals: ps}
	r := &round{}
	p := &proposer{group: g, round: r, proposals: ps, handover: h, sequencer: sequence.New(table)}
	e := &lifecycle{proposer: p}
	q := reads{p}
	sh := &shortage{lifecycle: e, reads: &q}
	if log.StartOffset() > table.Start() {
		sh.state = short
	}
	m := &membership{group: g, proposals: ps, handover: h}
	room := &space{group: g}
	a := &applier{lifecycle: e, space: room, membership: m, short: sh}
	act := &activity{proposer: p, short: sh}
	c := &Core{
		group: g, round: r, proposals: ps, handover: h, supply: supply{group: g}, membership: m,
		distance: distance{stretch: max(o.Stretch, 1)}, election: election{group: g, firstLeader: o.FirstLeader}, proposer: p, reads: q,
		lifecycle: e, applier: a, storer: storer{applier: a, activity: act}, activity: act, waiters: waiters{lifecycle: e, opened: hard.Commit},
		hashing: hashing{proposer: p, every: uint64(cmp.Or(o.HashEvery, DefaultHashEvery))}, space: room, short: sh, sessions: sessionMemory{all: o.Memory.Sessions},
	}
	g.protect = c.guard
	if c.address == nil {
		c.address = func(uint64) string { return "" }
	}
	config := &raft.Config{
		ID: o.ID, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: c.storage, Applied: index, AsyncStorageWrites: true,
		MaxSizePerMsg:            1 << 20,
		MaxCommittedSizePerReady: 64 << 20,
		MaxInflightMsgs:          256,
		MaxInflightBytes:         inFlightBytes,
		CheckQuorum:              true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: raftLogger{o.Logger},
	}
	c.guard(func() {
		if c.raft, err = raft.NewRawNode(config); err == nil && c.soleVoter() {
			err = c.raft.Campaign() // nobody else can lead: do not wait for an election timeout
		} else if err == nil && o.FirstLeader && o.AtOnce {
			err = c.raft.Step(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: new(o.ID), To: new(o.ID)})
			c.ticksWithoutLeader++ // else the first tick would begin it again
		} else if err == nil && o.Elect != 0 && last == bootstrapIndex && hard.Term == bootstrapIndex && hard.Vote == 0 {
			err = c.raft.Step(&raftpb.Message{
				Type: raftpb.MsgVote.Enum(), From: new(o.Elect), To: new(o.ID), Term: new(hard.Term + 1),
				Index: new(last), LogTerm: new(lastTerm), Context: []byte("CampaignTransfer"),
			})
		}
	})
	if c.failed != nil {
		return nil, c.failed
	}
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	if rotten {
		c.RenewSnapshot()
	}
	return c, nil
}

// Limits of a core, and why.
const (
	// maxDrains bounds the drains of the queue that are not on this disk yet: one
	// syncing, one forming. More only makes the entries smaller (measured: -40 %).
	maxDrains = 2

	// windowBytes bounds the appends uncommitted at once across slow links: a
	// gigabit for half a second.
	windowBytes = 64 << 20

	// inFlightBytes bounds what is on its way to one follower.
	inFlightBytes = 64 << 20

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
