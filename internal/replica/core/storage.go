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

// storage presents the tail and the segments to Raft as one log. All its methods run on the
// core's loop. It reads entries from disk only while a replica starts; what a lagging follower
// needs is read outside the loop, see feed and base.
type storage struct {
	tail  *tail.Tail
	log   segment.Log
	table *sequence.Table // state after the entries up to applied
	// last is the index of the newest entry handed to the writer: Raft must see entries here before
	// it gets the report that they are durable.
	last     uint64
	lastTerm uint64
	hard     segment.HardState
	conf     *raftpb.ConfState
	// Bounds of indexes at any time, see Core.checkBounds:
	//
	//	first-1 <= applied <= min(commit, durable) <= last
	commit  uint64 // newest index known committed
	applied uint64 // newest index folded into the table
	// durable is the newest index whose write is known to be durable and is not replaced by a write
	// in progress.
	durable uint64
	// appliedTerm is the term of applied. Raft asks for it with each linearizable read, and it may
	// not be in memory.
	appliedTerm uint64
	feed        lagging.Feed
	base        lagging.Base
	baseless    lagging.Baseless
	logger      *slog.Logger
	// broken is the reason why the log could not be read. Raft does not handle such an error and
	// panics; see lifecycle.guard.
	broken error
}

func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	h := s.hard
	return &raftpb.HardState{Term: new(h.Term), Vote: new(h.Vote), Commit: new(h.Commit)}, s.conf, nil
}

// Entries returns entries from memory, or from disk if this replica has just started and must apply
// them. Any other range is for a lagging follower.
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

// Term returns the term of an entry. Raft needs it where a lagging follower continues; a term
// that is not in memory is read outside the loop with the entries behind it.
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

// term returns the term of an entry. For an applied entry it does not access the disk; for later
// ones it does so only while a replica starts.
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

// Snapshot is called by Raft when Entries or Term returned nothing.
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

// baseSnapshot returns the snapshot for a follower without the oldest entries, or nil while it is
// not in memory.
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

// withMembers returns the configuration of a snapshot for followers that are members now. The
// configuration may be older than they are, and Raft accepts no snapshot that does not name the
// receiver. So members that joined later are added as learners, which they were first. Voters are
// those at the snapshot's index: later changes are in the entries that follow.
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

// raftError returns the two errors that Raft can handle, and records any other.
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

// describeAll determines bounds and checksums of entries. Proposals made here have a checksum,
// and get their index here.
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

// before returns the end and the time of the log just before index. It reads at most one entry
// from disk: if a suffix is replaced that was stored, but not known to be committed, when this
// process started.
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

// checksum returns the checksum of an entry, which is stored in the tail.
func (s *storage) checksum(e *raftpb.Entry) uint32 {
	if t, ok := s.tail.At(e.GetIndex()); ok && t.GetTerm() == e.GetTerm() {
		return t.CRC
	}
	return record.Checksum(e.Data)
}

// unread is an error of reading the log, as opposed to an error in its content.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }
