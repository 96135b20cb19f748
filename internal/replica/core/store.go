package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// storer writes entries as Raft requests, and tracks how far they are durable and committed.
type storer struct {
	applier   *applier
	group     *group
	round     *round
	lifecycle *lifecycle
	proposer  *proposer
	proposals *proposals
	activity  *activity

	// jump is the index of the newest committed fast-forward. It moves start and end together, so
	// nothing behind it is published before it has been applied.
	jump uint64
}

// crowded reports whether memory has no room for the entries of a message, because earlier ones
// wait for the disk. The leader will send them again. Entries that replace others are always
// accepted, since no others can precede them. So are entries behind a gap, which Raft answers,
// and entries that arrive when everything before is durable: a new leader may need them to commit
// that.
func (s *storer) crowded(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || len(m.Entries) == 0 || m.GetIndex() != s.group.storage.last || s.group.storage.durable == s.group.storage.last {
		return false
	}
	bytes := 0
	for _, e := range m.Entries {
		bytes += len(e.Data)
	}
	return !s.group.storage.tail.HasRoom(bytes, min(s.group.storage.applied, s.group.storage.durable)+1)
}

// store turns an append request of Raft into frames for the writer.
func (s *storer) store(m *raftpb.Message) {
	w := Write{responses: m.GetResponses()}
	if snapshot := m.GetSnapshot(); snapshot.GetMetadata().GetIndex() > 0 {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		var err error
		if w.Install, err = s.install(snapshot, hard); err != nil {
			s.lifecycle.Fail(record.Refuse(record.Corrupt, "the leader's snapshot cannot be read: %v", err))
			return
		}
	}
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		w.MustSync = hard.Term != s.group.storage.hard.Term || hard.Vote != s.group.storage.hard.Vote
		s.group.storage.hard = hard
		w.HardState = &hard
	}
	if len(m.GetEntries()) > 0 {
		w.MustSync = true
		entries, err := s.group.storage.describeAll(m.GetEntries(), s.proposals)
		if err != nil {
			s.round.out.Damaged = err // ignored unless the stored entry before it cannot be read
			reason := record.Corrupt
			if errors.As(err, new(unread)) && !errors.As(err, new(*segment.CorruptError)) {
				reason = record.StorageFailed
			}
			s.lifecycle.Fail(record.Refuse(reason, "an entry for the log cannot be read: %v", err))
			return
		}
		s.group.storage.tail.Append(entries)
		s.group.storage.durable = min(s.group.storage.durable, entries[0].GetIndex()-1)
		s.activity.woken()
		w.Entries = make([]segment.Entry, len(entries))
		for i := range entries {
			w.Entries[i] = entries[i].Frame()
		}
		last := m.GetEntries()[len(entries)-1]
		s.group.storage.last, s.group.storage.lastTerm = last.GetIndex(), last.GetTerm()
		w.Written = s.proposals.noticed()
	}
	s.round.out.Writes = append(s.round.out.Writes, w)
}

// madeDurable records that a write is durable. Of its entries only those count that have not been
// replaced since.
func (s *storer) madeDurable(w *Write) {
	if w.Install != nil {
		s.group.storage.durable = max(s.group.storage.durable, w.Install.Index)
	}
	for i := len(w.Entries) - 1; i >= 0; i-- {
		f := &w.Entries[i]
		if e, ok := s.group.storage.tail.At(f.Index); ok && e.GetTerm() == f.Term {
			s.group.storage.durable = max(s.group.storage.durable, f.Index)
			break
		}
	}
	s.proposals.markDurable(s.group.storage.durable, w, s.round.now)
}

// commitTo answers the proposals that have committed and publishes their records, which are still
// in memory.
func (s *storer) commitTo(commit uint64) {
	if commit <= s.group.storage.commit {
		return
	}
	from := s.group.storage.commit + 1
	s.group.storage.commit = commit
	s.proposals.commit(commit, s.round)
	if s.jump > s.group.storage.applied {
		return
	}
	end := record.Offset(0)
	for i := from; i <= commit; i++ {
		e, ok := s.group.storage.tail.At(i)
		if !ok {
			break
		}
		if e.End != e.First+record.Offset(e.Count) {
			s.jump = i
			break
		}
		end = e.End
	}
	s.group.storage.tail.Publish(0, end, s.group.storage.table.Holds())
}

// install adopts a snapshot. From here on the core continues after it; the files follow when the
// writer reaches it, and until then no answer depends on it.
func (s *storer) install(snapshot *raftpb.Snapshot, hard segment.HardState) (*Install, error) {
	meta := snapshot.GetMetadata()
	_, encoded, err := splitState(snapshot.GetData())
	if err != nil {
		return nil, err
	}
	// This runs on the loop, since Raft's next output relies on it. It takes as long as encoding the
	// table would: 0.25 s for 100,000 sessions of 8 spans each, on a busy machine
	// (BenchmarkFreezing), for a replica that lags anyway.
	table, err := sequence.RestoreTable(encoded)
	if err != nil {
		return nil, fmt.Errorf("decode table: %w", err)
	}
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(meta.GetConfState())
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	s.group.logger.Info("the leader has trimmed entries that this replica lacks; it continues behind them",
		"index", meta.GetIndex(), "offset", int64(table.End()))
	room, left := s.proposer.sequencer.Room(), s.proposer.sequencer.MemoryLeft()
	table.Bound(s.group.storage.table.Limits())
	s.group.storage.table, s.proposer.sequencer = table, sequence.New(table)
	s.proposer.sequencer.SetRoom(room)
	s.proposer.sequencer.SetMemoryLeft(left)
	s.proposer.sequencer.CountPrincipals(s.proposer.principals)
	s.group.storage.commit = max(s.group.storage.commit, meta.GetIndex())
	s.group.storage.applied, s.group.storage.appliedTerm = meta.GetIndex(), meta.GetTerm()
	s.applier.starts, s.applier.short.state = nil, complete
	s.applier.installed = meta.GetIndex()
	s.group.storage.conf = meta.GetConfState()
	s.group.storage.last, s.group.storage.lastTerm = meta.GetIndex(), meta.GetTerm()
	s.group.storage.hard = hard
	s.group.storage.durable = min(s.group.storage.durable, meta.GetIndex())
	s.group.storage.tail.Reset(table.End(), table.Holds())
	return &Install{
		Index: meta.GetIndex(), Term: meta.GetTerm(), Start: table.End(), Hard: hard,
		conf: conf, table: encoded,
	}, nil
}
