package tail

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Entry is a Raft entry with the data that readers and segments need. Its Data is shared by
// reference with Raft, the writer and readers and is never changed.
type Entry struct {
	*raftpb.Entry
	First, End record.Offset // End differs from First+Count after a fast-forward
	Count      uint32
	Time       int64
	CRC        uint32
}

// Describe returns an entry with the bounds that its payload states. An entry without records is
// at the end of the log and has the time of the previous entry.
func Describe(e *raftpb.Entry, crc uint32, end record.Offset, time int64) (Entry, error) {
	t := Entry{Entry: e, First: end, End: end, Time: time, CRC: crc}
	if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 {
		return t, nil
	}
	parsed, err := record.ParseEntry(e.Data)
	if err != nil {
		return t, err
	}
	t.First, t.End, t.Count, t.Time = parsed.First, parsed.End(), parsed.Count, parsed.Time
	if parsed.Kind == record.EntryCommand {
		c, err := record.ParseCommand(parsed.Body)
		if err != nil {
			return t, err
		}
		if c.Kind == record.Trim && c.Flags&record.FlagFastForward != 0 {
			t.End = max(t.End, c.Offset)
		}
	}
	return t, nil
}

// Frame returns the entry as segments store it.
func (e *Entry) Frame() segment.Entry {
	return segment.Entry{
		Index: e.GetIndex(), Term: e.GetTerm(), Type: uint8(e.GetType()),
		First: e.First, Count: e.Count, Time: e.Time, CRC: e.CRC, Payload: e.Data,
	}
}

// EntriesOf returns the Raft entries in frames.
func EntriesOf(frames []segment.Entry) []*raftpb.Entry {
	entries := make([]*raftpb.Entry, len(frames))
	for i, f := range frames {
		entries[i] = &raftpb.Entry{
			Type: raftpb.EntryType(f.Type).Enum(), Term: new(f.Term), Index: new(f.Index), Data: f.Payload,
		}
	}
	return entries
}
