package core

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// storer has entries written as Raft wants it, and follows how far they are durable
// and committed.
type storer struct {
	*applier
	activity *activity

	// jump is the index of the newest fast-forward that has committed. It moves
	// start and end together, so nothing behind it is shown before it has been
	// applied.
	jump uint64
}

// crowded reports whether the memory has no room for the entries of a message, as many
// before them wait for the disk; the leader sends them again. What replaces entries is
// always taken: no others may come before. So is what follows a gap, which Raft answers, and
// what comes when all before is durable: a new leader may need it to commit that.
func (s *storer) crowded(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || len(m.Entries) == 0 || m.GetIndex() != s.storage.last || s.storage.durable == s.storage.last {
		return false
	}
	bytes := 0
	for _, e := range m.Entries {
		bytes += len(e.Data)
	}
	return !s.storage.tail.HasRoom(bytes, min(s.storage.applied, s.storage.durable)+1)
}

// store turns Raft's wish to append into frames for the writer.
func (s *storer) store(m *raftpb.Message) {
	w := Write{responses: m.GetResponses()}
	if snapshot := m.GetSnapshot(); snapshot.GetMetadata().GetIndex() > 0 {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		var err error
		if w.Install, err = s.install(snapshot, hard); err != nil {
			s.Fail(record.Refuse(record.Corrupt, "the leader's snapshot cannot be read: %v", err))
			return
		}
	}
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		w.MustSync = hard.Term != s.storage.hard.Term || hard.Vote != s.storage.hard.Vote
		s.storage.hard = hard
		w.HardState = &hard
	}
	if len(m.GetEntries()) > 0 {
		w.MustSync = true
		entries, err := s.storage.describeAll(m.GetEntries(), s.proposals)
		if err != nil {
			s.out.Damaged = err // if it is what is stored before it that cannot be read
			reason := record.Corrupt
			if errors.As(err, new(unread)) && !errors.As(err, new(*segment.CorruptError)) {
				reason = record.StorageFailed
			}
			s.Fail(record.Refuse(reason, "an entry for the log cannot be read: %v", err))
			return
		}
		s.storage.tail.Append(entries)
		s.storage.durable = min(s.storage.durable, entries[0].GetIndex()-1)
		s.activity.woken()
		w.Entries = make([]segment.Entry, len(entries))
		for i := range entries {
			w.Entries[i] = entries[i].Frame()
		}
		last := m.GetEntries()[len(entries)-1]
		s.storage.last, s.storage.lastTerm = last.GetIndex(), last.GetTerm()
		w.Written = s.proposals.noticed()
	}
	s.out.Writes = append(s.out.Writes, w)
}

// madeDurable takes a write that is durable into account. Of its entries those
// count that have not been replaced since: it was on its way while others came.
func (s *storer) madeDurable(w *Write) {
	if w.Install != nil {
		s.storage.durable = max(s.storage.durable, w.Install.Index)
	}
	for i := len(w.Entries) - 1; i >= 0; i-- {
		f := &w.Entries[i]
		if e, ok := s.storage.tail.At(f.Index); ok && e.GetTerm() == f.Term {
			s.storage.durable = max(s.storage.durable, f.Index)
			break
		}
	}
	s.proposals.markDurable(s.storage.durable, w, s.now)
}

// commitTo answers the proposals that have committed and shows readers their
// records, which are still in memory.
func (s *storer) commitTo(commit uint64) {
	if commit <= s.storage.commit {
		return
	}
	from := s.storage.commit + 1
	s.storage.commit = commit
	s.proposals.commit(commit, s.round)
	if s.jump > s.storage.applied {
		return
	}
	end := record.Offset(0)
	for i := from; i <= commit; i++ {
		e, ok := s.storage.tail.At(i)
		if !ok {
			break
		}
		if e.End != e.First+record.Offset(e.Count) {
			s.jump = i
			break
		}
		end = e.End
	}
	s.storage.tail.Publish(0, end, s.storage.table.Holds())
}
