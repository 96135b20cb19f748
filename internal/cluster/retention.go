package cluster

import "strandline.dev/internal/record"

// TrimDue returns the offset that the leader of a log has to trim it to, and whether
// a trim is due. byAge and bySize are the first offsets that the retention of the
// log keeps; 0 where the log has no such limit. Leaders ask once a second.
func TrimDue(start, end, byAge, bySize record.Offset) (before record.Offset, due bool) {
	before = min(max(byAge, bySize), end)
	return before, before > start
}
