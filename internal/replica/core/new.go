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

// Config configures a core.
type Config struct {
	ID        uint64 // replica id, never reused
	Log       segment.Log
	HardState segment.HardState
	Memory    *budget.Memory // memory of the node, shared with its other logs
	Logger    *slog.Logger
	// FirstLeader makes this replica of a new log start an election without waiting for an election
	// timeout.
	FirstLeader bool
	// AtOnce makes it do so without a pre-vote, and before the first tick.
	AtOnce bool
	// Elect is the first leader of a new log. A replica that has never voted votes for it before it
	// receives the request, which is on its way. 0: none.
	Elect uint64
	// Stretch is the argument of Distance.SetStretch; 0 means 1.
	Stretch int
	// Rests reports whether all nodes leave out ticks of an idle log that has open sessions, or leases of
	// holds. It must not block. If nil, they do.
	Rests func() bool
	// Limits are the limits of the log; nil means DefaultLimits.
	Limits *Limits
	// HashEvery is how many bytes of batches are hashed together for the digest; 0 means
	// DefaultHashEvery.
	HashEvery int
	// Address returns the address for clients of a replica's node. It may be nil.
	Address func(replica uint64) string
	// Committed is called for each entry proposed here that has committed, with the stages of its
	// oldest request. It must not block. It may be nil.
	Committed func(sequence.Times)
	// Acknowledged is called when another replica has acknowledged an entry that was proposed here,
	// with the time since then; one entry at a time is followed for each replica. It must not block.
	// It may be nil.
	Acknowledged func(replica uint64, after time.Duration)
	// TraceRaft is called with each event of Raft, as JSON, in a program built with the tag
	// with_tla. It may be nil.
	TraceRaft func(event []byte)
}

// DefaultHashEvery is large enough to make the cost per piece negligible.
const DefaultHashEvery = 1 << 20

// New returns a core for a recovered log.
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
	limits := DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	table.Bound(limits.Table)
	last := log.LastIndex()
	lastTerm, err := log.Term(last)
	if err != nil {
		return nil, fmt.Errorf("read term of the last index %d: %w", last, err)
	}
	// The entries that the snapshot covers were committed when it was taken.
	if hard.Commit, err = committedAtLeast(log, max(hard.Commit, index), last); err != nil {
		return nil, err
	}
	t := tail.New(o.Memory.Tails, max(table.Start(), log.StartOffset()), table.End())
	t.Publish(0, 0, table.Holds())
	g := &group{id: o.ID, logger: o.Logger, term: hard.Term, address: o.Address, storage: &storage{
		tail: t, log: log, table: table, last: last, lastTerm: lastTerm, hard: hard, conf: conf, logger: o.Logger,
		feed: lagging.Feed{Memory: o.Memory.Sending, Limits: limits.Feed}, applied: index, appliedTerm: term, commit: hard.Commit, durable: last,
	}}
	ps := &proposals{limits: limits, committed: o.Committed, acks: ackTimes{report: o.Acknowledged}}
	h := &handover{group: g, proposals: ps}
	r := &round{}
	confirm := &confirmations{}
	p := &proposer{group: g, round: r, proposals: ps, handover: h, confirm: confirm, sequencer: sequence.New(table)}
	p.principals = o.Memory.Principals
	p.sequencer.CountPrincipals(p.principals)
	e := &lifecycle{group: g, round: r, proposer: p}
	q := &reads{group: g, round: r, proposer: p, confirm: confirm}
	sh := &shortage{group: g, round: r, lifecycle: e, reads: q}
	if log.StartOffset() > table.Start() {
		sh.state = short
	}
	m := &membership{group: g, proposals: ps, handover: h}
	room := &space{group: g}
	a := &applier{group: g, round: r, lifecycle: e, proposer: p, space: room, membership: m, short: sh}
	act := &activity{group: g, round: r, proposer: p, proposals: ps, confirm: confirm, short: sh, rests: o.Rests}
	c := &Core{
		Group: g, round: r,
		Handover:   h,
		Membership: m,
		Distance:   distance{stretch: max(o.Stretch, 1)},
		Election:   election{group: g, firstLeader: o.FirstLeader},
		Supply:     supply{group: g},
		Reads:      q,
		Lifecycle:  e,
		Applier:    a,
		Activity:   act,
		Waiters:    waiters{group: g, lifecycle: e, proposer: p, proposals: ps, handover: h, opened: hard.Commit},
		Hashing:    hashing{group: g, round: r, proposer: p, every: uint64(cmp.Or(o.HashEvery, DefaultHashEvery))},
		proposer:   p,
		proposals:  ps,
		confirm:    confirm,
		storer:     storer{group: g, round: r, applier: a, lifecycle: e, proposer: p, proposals: ps, activity: act},
		space:      room,
		short:      sh,
		Writers:    &writers{group: g, round: r, proposer: p, confirm: confirm, reads: q, lifecycle: e},
		Checks:     checks{proposer: p, reads: q, all: o.Memory.Checks},
		sessions:   sessionMemory{all: o.Memory.Sessions},
	}
	act.election, act.hashing = &c.Election, &c.Hashing
	g.protect = c.Lifecycle.guard
	if c.Group.address == nil {
		c.Group.address = func(uint64) string { return "" }
	}
	config := &raft.Config{
		ID: o.ID, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: c.Group.storage, Applied: index, AsyncStorageWrites: true,
		MaxSizePerMsg:            limits.Message,
		MaxCommittedSizePerReady: 64 << 20,
		MaxInflightMsgs:          256,
		MaxInflightBytes:         limits.InFlight,
		CheckQuorum:              true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: raftLogger{o.Logger},
	}
	traceRaft(config, o.TraceRaft)
	c.Lifecycle.guard(func() {
		if c.Group.raft, err = raft.NewRawNode(config); err == nil && c.Group.soleVoter() {
			err = c.Group.raft.Campaign() // no other replica can lead: do not wait for an election timeout
		} else if err == nil && o.FirstLeader && o.AtOnce {
			err = c.Group.raft.Step(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: new(o.ID), To: new(o.ID)})
			c.Election.ticksWithoutLeader++ // otherwise the first tick would begin another election
		} else if err == nil && o.Elect != 0 && last == bootstrapIndex && hard.Term == bootstrapIndex && hard.Vote == 0 {
			err = c.Group.raft.Step(&raftpb.Message{
				Type: raftpb.MsgVote.Enum(), From: new(o.Elect), To: new(o.ID), Term: new(hard.Term + 1),
				Index: new(last), LogTerm: new(lastTerm), Context: []byte("CampaignTransfer"),
			})
		}
	})
	if c.Group.failed != nil {
		return nil, c.Group.failed
	}
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	if rotten {
		c.Applier.RenewSnapshot()
	}
	return c, nil
}
