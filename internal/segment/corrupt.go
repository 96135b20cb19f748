package segment

import "fmt"

// CorruptError reports stored bytes that do not match their checksum, or a file that is missing.
// Such bytes are never served and never truncated; the file stays as it was found.
type CorruptError struct {
	File       string // path; the name of a missing file ends in * if its first index is not known
	Position   int64  // byte in File at which the damage shows
	FirstIndex uint64 // entries [FirstIndex, LastIndex] are damaged, or may be
	LastIndex  uint64 // 0: no entries are
	Detail     string
	// Forged is set if the entry FirstIndex matches all checksums but is not what was appended.
	Forged bool
	// Renew is set if entries from other replicas cannot repair the log, see
	// repair.ErrNotRepairable.
	Renew bool
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%s is corrupt at byte %d", e.File, e.Position)
	switch {
	case e.LastIndex == 0:
	case e.FirstIndex == e.LastIndex:
		text += fmt.Sprintf(", entry %d is damaged", e.FirstIndex)
	default:
		text += fmt.Sprintf(", entries %d to %d may be damaged", e.FirstIndex, e.LastIndex)
	}
	advice := "another replica can supply the lost entries; without one, restore the file from a copy"
	if e.Renew {
		advice = "this replica may have forgotten its vote and has to be replaced by a new one; without other replicas, restore the file from a copy"
	}
	return fmt.Sprintf("%s: %s (%s)", text, e.Detail, advice)
}
