package core

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/tail"
)

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
