package repair

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Report is the result of Survey.
type Report struct {
	Owner               segment.Owner // owner of the log
	Segments, Snapshots int
	Bytes               int64 // of all these files
	Entries             uint64
	First, Last         uint64        // the log is [First, Last], readable or not; Last = First-1 if it is empty
	Start, End          record.Offset // of the records in it; Start is unknown (-1) if the first entry is
	HardState           segment.HardState

	// Torn, if not nil, is the start of writes that were never synced and reached the disk in part.
	// A torn tail is not damage: Open cuts it.
	Torn *Torn
	// Damage lists durable bytes that are not as they were written.
	Damage []Damage
	// Unfinished lists files of a Reset or a repair that a crash interrupted. The report describes
	// the log as it will be after the next Open, which completes them.
	Unfinished []string
	// Aside lists damaged files that were replaced. Nothing reads them.
	Aside []string
}

// Torn is the place at which the newest segment is cut.
type Torn struct {
	File     string // path
	Position int64
	Detail   string
}

// Damage is one damaged range of a file.
type Damage struct {
	File           string        // path; the name of a missing file ends in * if its first index is not known
	Position, Size int64         // bytes; Size 0: the whole file
	First, Last    uint64        // the entries that are lost; 0: none
	Start, End     record.Offset // their records are in [Start, End), as far as adjacent entries show
	Detail         string
	// Renew is set if entries from other replicas cannot repair it, see ErrNotRepairable.
	Renew bool
}

// Whole reports whether the log is undamaged.
func (r *Report) Whole() bool { return len(r.Damage) == 0 }

// forgotten returns damage for which the replica must be replaced by one with a new id, or nil if
// there is none.
func (r *Report) forgotten() *Damage {
	for i := range r.Damage {
		if r.Damage[i].Renew {
			return &r.Damage[i]
		}
	}
	return nil
}

// corruption returns the first damage of a report as an error, preferably damage that cannot be
// repaired.
func (r *Report) corruption() *segment.CorruptError {
	d := r.forgotten()
	if d == nil {
		d = &r.Damage[0]
	}
	return &segment.CorruptError{
		File: d.File, Position: d.Position, FirstIndex: d.First, LastIndex: d.Last, Detail: d.Detail, Renew: d.Renew,
	}
}
