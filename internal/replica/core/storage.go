package core

import (
	"errors"
	"log/slog"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// storage shows the tail and the segments to Raft as one log. All its methods
// run on the core's loop; entries are read from disk here only while a replica
// starts. What a follower who lags needs is read aside, see feed and base.
type storage struct {
	tail  *tail.Tail
	log   segment.Log
	table *sequence.Table // what the entries up to applied add up to
	// last is the index of the newest entry handed to the writer: Raft must
	// see entries here before it hears that they are durable.
	last     uint64
	lastTerm uint64
	hard     segment.HardState
	conf     *raftpb.ConfState
	// Bounds of indexes at any time, see Core.checkBounds:
	//
	//	first-1 <= applied <= min(commit, durable) <= last
	commit  uint64 // newest index known committed
	applied uint64 // newest index folded into the table
	// durable is the newest index whose write is known to be durable, and which no
	// write that is under way replaces.
	durable uint64
	// appliedTerm is the term of applied: Raft asks for it with each linearizable
	// read, and it may not be in memory.
	appliedTerm uint64
	feed        lagging.Feed
	base        lagging.Base
	baseless    lagging.Baseless
	logger      *slog.Logger
	// broken is why the log could not be read. Raft knows no such error and
	// panics; see Core.protect.
	broken error
}

func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	h := s.hard
	return &raftpb.HardState{Term: new(h.Term), Vote: new(h.Vote), Commit: new(h.Commit)}, s.conf, nil
}

// Entries are in memory, or this replica has to apply them since it has just
// started. All other ranges are for a follower who lags.
func (s *storage) Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error) {
	if entries, ok := s.tail.Slice(lo, hi, maxBytes); ok {
		return entries, nil
	}
	if lo < s.log.FirstIndex() {
		s.feed.Missed = false
		return nil, raft.ErrCompacted
	}
	if lo <= s.applied {
		if entries, ok := s.feed.Take(lo, min(hi, s.applied+1), maxBytes); ok {
			return entries, nil
		}
		return nil, raft.ErrCompacted
	}
	frames, err := s.log.Entries(lo, hi, int(min(maxBytes, math.MaxInt)))
	if err != nil {
		return nil, s.raftError(err)
	}
	return tail.EntriesOf(frames), nil
}

// Term is asked for where a follower who lags goes on; what is not in memory is read
// aside with the entries behind it.
func (s *storage) Term(index uint64) (uint64, error) {
	term, err := s.term(index)
	if errors.Is(err, segment.ErrNotInMemory) {
		if term, ok := s.feed.Term(index); ok {
			return term, nil
		}
		return 0, raft.ErrCompacted
	}
	if err != nil {
		s.feed.Missed = false
	}
	return term, s.raftError(err)
}

// term of an entry. For one that was applied, it does not touch the disk; those
// behind are only read from disk while a replica starts.
func (s *storage) term(index uint64) (uint64, error) {
	switch index {
	case s.last:
		return s.lastTerm, nil
	case s.applied:
		return s.appliedTerm, nil
	}
	if e, ok := s.tail.At(index); ok {
		return e.GetTerm(), nil
	}
	if index < s.applied {
		return s.log.TermInMemory(index)
	}
	return s.log.Term(index)
}

func (s *storage) LastIndex() (uint64, error) { return s.last, nil }

func (s *storage) FirstIndex() (uint64, error) { return s.log.FirstIndex(), nil }

// Snapshot is asked for when Entries or Term had nothing.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	if s.feed.Missed {
		s.feed.Missed = false
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	snapshot, err := s.baseSnapshot()
	if err != nil {
		s.logger.Warn("no snapshot for a follower at the moment", "error", err)
		s.baseless.Wanted = true
	}
	if snapshot == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return snapshot, nil
}

// raftError gives Raft the two errors that it knows how to live with, and keeps
// any other.
func (s *storage) raftError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, segment.ErrTrimmed):
		return raft.ErrCompacted
	case errors.Is(err, segment.ErrUnavailable):
		return raft.ErrUnavailable
	}
	s.broken = err
	return err
}
