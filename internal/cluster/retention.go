package cluster

import "strandline.dev/internal/record"

// TrimDue returns the offset to which the leader has to trim a log, and reports whether a trim is
// due. byAge and bySize are the first offsets that the log's retention keeps; 0 if there is no
// such limit. Records that a hold keeps are not trimmed. Leaders call it once per second.
func TrimDue(start, end, byAge, bySize record.Offset, holds []record.Hold) (before record.Offset, due bool) {
	before = min(max(byAge, bySize), end)
	for i := range holds {
		before = min(before, holds[i].Offset)
	}
	return before, before > start
}

// BreakDue reports whether the leader has to break a hold because it keeps more than it may.
// bytes is the size of the records from its offset on, and byAge the first offset that is not
// older than its MaxAge; 0 if it has no such limit.
func BreakDue(h record.Hold, bytes int64, byAge record.Offset) bool {
	return h.MaxBytes > 0 && bytes > h.MaxBytes || h.MaxAge > 0 && byAge > h.Offset
}
