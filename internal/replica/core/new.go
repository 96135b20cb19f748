package core

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"

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
	// Address returns where the clients of a replica's node go. May be nil.
	Address func(replica uint64) string
	// Committed is called for each entry proposed here that has committed: for how long its
	// oldest request waited until it was proposed; from there until it was on this disk, 0 if
	// a majority had it before; from there until a majority had it. It must not block. May
	// be nil.
	Committed func(queue, disk, replicas time.Duration)
}

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
	hard.Commit = max(hard.Commit, index)
	t := tail.New(o.Memory.Tails, max(table.Start(), log.StartOffset()), table.End())
	g := &group{id: o.ID, logger: o.Logger, term: hard.Term, address: o.Address, storage: &storage{
		tail: t, log: log, table: table, last: last, lastTerm: lastTerm, hard: hard, conf: conf, logger: o.Logger,
		feed: lagging.Feed{Memory: o.Memory.Sending}, applied: index, appliedTerm: term, commit: hard.Commit, durable: last,
	}}
	ps := &proposals{committed: o.Committed}
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
		election: election{group: g, firstLeader: o.FirstLeader}, proposer: p, reads: q,
		lifecycle: e, applier: a, storer: storer{applier: a, activity: act}, activity: act, waiters: waiters{lifecycle: e, opened: hard.Commit},
		space: room, short: sh, sessions: sessionMemory{all: o.Memory.Sessions},
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
