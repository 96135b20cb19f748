package core

import (
	"errors"
	"fmt"
	"log/slog"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
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
	// panics; see lifecycle.guard.
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

// Term returns the term of the entry at index. Raft needs it where a lagging follower
// continues; what is not in memory is read aside with the entries behind it.
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

// baseSnapshot is what a follower without the oldest entries gets; nil while it
// is not in memory.
func (s *storage) baseSnapshot() (*raftpb.Snapshot, error) {
	index := s.log.FirstIndex() - 1
	data, term, ok := s.base.Take(index)
	if !ok {
		return nil, nil
	}
	conf, _, err := splitState(data)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{
		Data:     data,
		Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: withMembers(conf, s.conf)},
	}, nil
}

// withMembers is the configuration of a snapshot for followers that are members
// now. It may be older than they are, and Raft takes no snapshot that does not name
// it; so members that came later are named as learners, which they were before
// anything else. Voters are those of the snapshot's index: what changed since is in
// the entries that follow.
func withMembers(conf, now *raftpb.ConfState) *raftpb.ConfState {
	known := map[uint64]bool{}
	for _, ids := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()} {
		for _, id := range ids {
			known[id] = true
		}
	}
	for _, ids := range [][]uint64{now.GetVoters(), now.GetVotersOutgoing(), now.GetLearners(), now.GetLearnersNext()} {
		for _, id := range ids {
			if !known[id] {
				known[id] = true
				conf.Learners = append(conf.Learners, id)
			}
		}
	}
	return conf
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

// describeAll finds bounds and checksums of entries; proposals of our own carry
// theirs and learn their index here.
func (s *storage) describeAll(entries []*raftpb.Entry, ps *proposals) ([]tail.Entry, error) {
	end, time, err := s.before(entries[0].GetIndex())
	if err != nil {
		return nil, err
	}
	out := make([]tail.Entry, len(entries))
	for i, e := range entries {
		crc, ours := uint32(0), false
		if e.GetType() == raftpb.EntryNormal && len(e.Data) > 0 {
			crc, ours = ps.place(e.GetIndex())
		}
		if !ours {
			crc = record.Checksum(e.Data)
		}
		if out[i], err = tail.Describe(e, crc, end, time); err != nil {
			return nil, err
		}
		end, time = out[i].End, out[i].Time
	}
	return out, nil
}

// before returns the end of the log and its time just before index. It reads the
// disk for one entry only: where a suffix is replaced that was stored, and not known
// to be committed, when this process began.
func (s *storage) before(index uint64) (record.Offset, int64, error) {
	if index-1 == s.applied {
		return s.table.End(), s.table.Time(), nil
	}
	if e, ok := s.tail.At(index - 1); ok {
		return e.End, e.Time, nil
	}
	frames, err := s.log.Entries(index-1, index, 0)
	if err != nil {
		return 0, 0, unread{fmt.Errorf("read entry %d: %w", index-1, err)}
	}
	f := frames[0]
	e, err := tail.Describe(&raftpb.Entry{Type: raftpb.EntryType(f.Type).Enum(), Data: f.Payload}, f.CRC, f.First, f.Time)
	return e.End, e.Time, err
}

// checksum of an entry is known while it is in the tail.
func (s *storage) checksum(e *raftpb.Entry) uint32 {
	if t, ok := s.tail.At(e.GetIndex()); ok && t.GetTerm() == e.GetTerm() {
		return t.CRC
	}
	return record.Checksum(e.Data)
}

// unread is an error of reading the log, not of what stands there.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }
