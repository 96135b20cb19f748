package core

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// store turns Raft's wish to append into frames for the writer.
func (c *Core) store(m *raftpb.Message) {
	w := Write{responses: m.GetResponses()}
	if s := m.GetSnapshot(); s.GetMetadata().GetIndex() > 0 {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		var err error
		if w.Install, err = c.install(s, hard); err != nil {
			c.Fail(record.Refuse(record.Corrupt, "the leader's snapshot cannot be read: %v", err))
			return
		}
	}
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		hard := segment.HardState{Term: m.GetTerm(), Vote: m.GetVote(), Commit: m.GetCommit()}
		w.MustSync = hard.Term != c.storage.hard.Term || hard.Vote != c.storage.hard.Vote
		c.storage.hard = hard
		w.HardState = &hard
	}
	if len(m.GetEntries()) > 0 {
		w.MustSync = true
		entries, err := c.storage.describeAll(m.GetEntries(), c.proposals)
		if err != nil {
			c.out.Damaged = err // if it is what is stored before it that cannot be read
			reason := record.Corrupt
			if errors.As(err, new(unread)) && !errors.As(err, new(*segment.CorruptError)) {
				reason = record.StorageFailed
			}
			c.Fail(record.Refuse(reason, "an entry for the log cannot be read: %v", err))
			return
		}
		c.storage.tail.Append(entries)
		c.storage.durable = min(c.storage.durable, entries[0].GetIndex()-1)
		c.woken()
		w.Frames = make([]segment.Frame, len(entries))
		for i := range entries {
			w.Frames[i] = entries[i].Frame()
		}
		last := m.GetEntries()[len(entries)-1]
		c.storage.last, c.storage.lastTerm = last.GetIndex(), last.GetTerm()
		w.Written = c.proposals.noticed()
	}
	c.out.Writes = append(c.out.Writes, w)
}

// madeDurable takes a write that is durable into account. Of its entries those
// count that have not been replaced since: it was on its way while others came.
func (c *Core) madeDurable(w *Write) {
	if w.Install != nil {
		c.storage.durable = max(c.storage.durable, w.Install.Index)
	}
	for i := len(w.Frames) - 1; i >= 0; i-- {
		f := &w.Frames[i]
		if e, ok := c.storage.tail.At(f.Index); ok && e.GetTerm() == f.Term {
			c.storage.durable = max(c.storage.durable, f.Index)
			break
		}
	}
	c.proposals.markDurable(c.storage.durable, c.now.Monotonic)
}
