package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
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
		entries, err := c.describeAll(m.GetEntries())
		if err != nil {
			c.out.Damaged = err // if it is what is stored before it that cannot be read
			reason := record.Corrupt
			if errors.As(err, new(unread)) && !errors.As(err, new(*segment.CorruptError)) {
				reason = record.StorageFailed
			}
			c.Fail(record.Refuse(reason, "an entry for the log cannot be read: %v", err))
			return
		}
		c.tail.Append(entries)
		c.durable = min(c.durable, entries[0].GetIndex()-1)
		c.woken()
		w.Frames = make([]segment.Frame, len(entries))
		for i := range entries {
			w.Frames[i] = entries[i].Frame()
		}
		last := m.GetEntries()[len(entries)-1]
		c.storage.last, c.storage.lastTerm = last.GetIndex(), last.GetTerm()
		w.Written = c.noticed()
	}
	c.out.Writes = append(c.out.Writes, w)
}

// describeAll finds bounds and checksums of entries; proposals of our own carry
// theirs and learn their index here.
func (c *Core) describeAll(entries []*raftpb.Entry) ([]tail.Entry, error) {
	end, time, err := c.before(entries[0].GetIndex())
	if err != nil {
		return nil, err
	}
	out := make([]tail.Entry, len(entries))
	for i, e := range entries {
		crc, ours := uint32(0), false
		if c.unplaced > 0 && e.GetType() == raftpb.EntryNormal && len(e.Data) > 0 {
			f := &c.proposals[len(c.proposals)-c.unplaced]
			f.index, crc, ours = e.GetIndex(), f.crc, true
			c.written, f.written = append(c.written, f.written...), nil
			c.unplaced--
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
func (c *Core) before(index uint64) (record.Offset, int64, error) {
	if index-1 == c.applied {
		return c.table.End(), c.table.Time(), nil
	}
	if e, ok := c.tail.At(index - 1); ok {
		return e.End, e.Time, nil
	}
	frames, err := c.storage.log.Entries(index-1, index, 0)
	if err != nil {
		return 0, 0, unread{fmt.Errorf("read entry %d: %w", index-1, err)}
	}
	f := frames[0]
	e, err := tail.Describe(&raftpb.Entry{Type: raftpb.EntryType(f.Type).Enum(), Data: f.Payload}, f.CRC, f.First, f.Time)
	return e.End, e.Time, err
}

// unread is an error of reading the log, not of what stands there.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }
