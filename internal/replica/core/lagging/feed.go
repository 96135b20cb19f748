package lagging

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// Feed supplies entries that have left memory to lagging followers. Raft asks for them on the
// loop, where the disk must not be read. So Raft gets the answer that there are none, which makes it
// wait, and the range is read elsewhere. Then Raft is made to ask again.
type Feed struct {
	// Memory is the node's memory for sending, in which ranges are counted.
	Memory *budget.Shares
	Limits Limits
	bytes  int64 // counted in Memory: ranges, and the maximum size of those being read

	// ranges are the ranges that were read, at most Limits.Ranges. The least recently used one is
	// dropped first.
	ranges []feedRange
	// reading has the maximum sizes in bytes of the ranges being read, by first index.
	reading map[uint64]int64
	// Wanted are the ranges to request with the next Output.
	Wanted []Wanted
	// Missed is set if Raft has just been told that a range is not available, and will ask for a
	// snapshot instead.
	Missed bool
	// Refused is set if a range that is needed now waits until others have been read or dropped.
	Refused bool
	// unused is the number of ticks since the last Take.
	unused int
}

type feedRange struct {
	entries []*raftpb.Entry
	bytes   int64
}

func (r *feedRange) has(index uint64) bool {
	first := r.entries[0].GetIndex()
	return index >= first && index < first+uint64(len(r.entries))
}

// Wanted is a range to read: about Bytes of entries, and at least one.
type Wanted struct {
	Lo    uint64
	Bytes int
}

// Limits are limits that a test may lower.
type Limits struct {
	Bytes  int64 // FeedBytes
	Least  int64 // leastFeed
	Ranges int   // feedRanges
}

// DefaultLimits returns the limits used in production.
func DefaultLimits() Limits { return Limits{Bytes: FeedBytes, Least: leastFeed, Ranges: feedRanges} }

const (
	// FeedBytes is how much is read at once: enough for the disk to run at full speed. If memory is
	// short it is less, but at least leastFeed.
	FeedBytes = 4 << 20
	leastFeed = 64 << 10
	// feedRanges bounds the ranges in memory: two for each of several followers.
	feedRanges = 8
	// FeedTicks is the number of ticks after which unused data is released: one second.
	FeedTicks = 20
)

// Take returns about maxBytes of entries from lo on. When half of a range has been taken, the
// next one is requested.
func (f *Feed) Take(lo, hi, maxBytes uint64) ([]*raftpb.Entry, bool) {
	f.unused = 0
	for i, r := range f.ranges {
		if !r.has(lo) {
			continue
		}
		first := r.entries[0].GetIndex()
		f.ranges = append(append(f.ranges[:i:i], f.ranges[i+1:]...), r)
		from := r.entries[lo-first:]
		n, size := 0, uint64(0)
		for n < len(from) && lo+uint64(n) < hi {
			if size += uint64(len(from[n].Data)); size > maxBytes && n > 0 {
				break
			}
			n++
		}
		if behind := first + uint64(len(r.entries)); behind < hi && (lo-first)*2 >= uint64(len(r.entries)) {
			f.want(behind, false)
		}
		f.Missed = false
		return from[:n:n], true
	}
	f.want(lo, true)
	f.Missed = true
	return nil, false
}

// Term returns the term of an entry in a range that was read. If there is none, it requests a
// range that begins with the entry.
func (f *Feed) Term(index uint64) (term uint64, ok bool) {
	f.unused = 0
	for _, r := range f.ranges {
		if r.has(index) {
			return r.entries[index-r.entries[0].GetIndex()].GetTerm(), true
		}
	}
	f.want(index, true)
	f.Missed = true
	return 0, false
}

// want requests the range from lo on. A range that is needed now displaces others if memory is
// short; one that may be needed next is read only if there is room.
func (f *Feed) want(lo uint64, now bool) {
	if f.reading[lo] > 0 {
		return
	}
	if len(f.reading) >= f.Limits.Ranges {
		f.Refused = f.Refused || now
		return
	}
	for _, r := range f.ranges {
		if r.has(lo) {
			return
		}
	}
	share := f.Memory.Share(int64(f.Limits.Ranges) * f.Limits.Bytes)
	bytes := min(max(min(share/2, (f.Memory.Size()-f.Memory.Used())/4), f.Limits.Least), f.Limits.Bytes)
	for now && f.bytes+bytes > share && len(f.ranges) > 0 {
		f.drop()
	}
	if f.bytes+bytes > share && f.bytes > 0 {
		f.Refused = f.Refused || now
		return // Raft asks again
	}
	f.Refused = f.Refused && !now
	if f.reading == nil {
		f.reading = map[uint64]int64{}
	}
	f.reading[lo] = bytes
	f.count(bytes)
	f.Wanted = append(f.Wanted, Wanted{lo, int(bytes)})
}

// Add adds a requested range. Without entries it could not be read.
func (f *Feed) Add(lo uint64, entries []*raftpb.Entry) {
	f.count(-f.reading[lo])
	delete(f.reading, lo)
	if len(entries) == 0 {
		return
	}
	r := feedRange{entries: entries}
	for _, e := range entries {
		r.bytes += int64(len(e.Data))
	}
	f.ranges = append(f.ranges, r)
	f.count(r.bytes)
	if len(f.ranges) > f.Limits.Ranges {
		f.drop()
	}
}

// drop releases the least recently used range.
func (f *Feed) drop() {
	f.count(-f.ranges[0].bytes)
	f.ranges = append(f.ranges[:0], f.ranges[1:]...)
}

func (f *Feed) count(bytes int64) {
	before := f.bytes
	f.bytes += bytes
	f.Memory.Changed(before, f.bytes)
}

// Clear releases all ranges.
func (f *Feed) Clear() {
	for len(f.ranges) > 0 {
		f.drop()
	}
	f.ranges = nil
}

// Release returns its memory to the node. Nothing is read afterwards.
func (f *Feed) Release() { f.count(-f.bytes) }

// Tick releases ranges that are no longer taken.
func (f *Feed) Tick() {
	if f.unused++; f.unused > FeedTicks {
		f.Clear()
	}
}
