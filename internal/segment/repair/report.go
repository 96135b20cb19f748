package repair

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Report is what Survey found in the directory of a log.
type Report struct {
	Owner               segment.Owner // whose log it is
	Segments, Snapshots int
	Bytes               int64 // of all these files
	Entries             uint64
	First, Last         uint64        // the log is [First, Last], readable or not; Last = First-1 if it is empty
	Start, End          record.Offset // of the records in it; Start is unknown (-1) if the first entry is
	HardState           segment.HardState

	// Torn, if not nil, is where writes end that were never synced and reached the
	// disk in part. That is no damage: a start cuts them.
	Torn *Torn
	// Damage is what was durable and is not as it was written.
	Damage []Damage
	// Unfinished are files of a Reset or a repair that a crash interrupted. The
	// report is of the log as the next Open makes it of them.
	Unfinished []string
	// Aside are damaged files that were replaced. Nothing reads them.
	Aside []string
}

// Torn is where the newest segment is cut.
type Torn struct {
	File     string // path
	Position int64
	Detail   string
}

// Damage is one stretch of a file.
type Damage struct {
	File           string        // path; the name of a missing file ends in * if its first index is not known
	Position, Size int64         // bytes; Size 0: the whole file
	First, Last    uint64        // the entries that are lost with it; 0: none
	Start, End     record.Offset // their records are in [Start, End), as far as adjacent entries show
	Detail         string
	// Renew: entries from other replicas cannot repair it, see ErrNotRepairable.
	Renew bool
}

// Whole reports whether there is nothing to repair.
func (r *Report) Whole() bool { return len(r.Damage) == 0 }

// forgotten returns the damage for which the replica must come back under a new
// id, nil if there is none.
func (r *Report) forgotten() *Damage {
	for i := range r.Damage {
		if r.Damage[i].Renew {
			return &r.Damage[i]
		}
	}
	return nil
}

// corruption is the first damage of a report as an error. One that cannot be
// repaired goes first.
func (r *Report) corruption() *segment.CorruptError {
	d := r.forgotten()
	if d == nil {
		d = &r.Damage[0]
	}
	return &segment.CorruptError{
		File: d.File, Position: d.Position, FirstIndex: d.First, LastIndex: d.Last, Detail: d.Detail, Renew: d.Renew,
	}
}
