package cluster

import "strandline.dev/internal/record"

// TrimDue returns the offset that the leader of a log has to trim it to, and whether
// a trim is due. byAge and bySize are the first offsets that the retention of the
// log keeps; 0 where the log has no such limit. Nothing goes that a hold keeps. Leaders
// ask once a second.
func TrimDue(start, end, byAge, bySize record.Offset, holds []record.Hold) (before record.Offset, due bool) {
	before = min(max(byAge, bySize), end)
	for i := range holds {
		before = min(before, holds[i].Offset)
	}
	return before, before > start
}

// BreakDue reports whether a hold keeps more than it may, so that the leader has to break
// it: so many bytes lie from its offset on, and byAge is the first offset that is not
// older than its MaxAge; 0 where it has no such bound.
func BreakDue(h record.Hold, bytes int64, byAge record.Offset) bool {
	return h.MaxBytes > 0 && bytes > h.MaxBytes || h.MaxAge > 0 && byAge > h.Offset
}
