package lagging

import (
	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/budget"
)

// Feed brings entries that have left memory to followers who lag. Raft asks
// for them on the loop, where a disk must not be read; so it hears that there
// are none, which makes it wait, and the range is read aside. When it has
// come, Raft is nudged to ask again.
type Feed struct {
	// Memory is the part of the node's for what is sent, which ranges count in.
	Memory *budget.Shares
	Limits Limits
	bytes  int64 // counted there: of ranges, and those that are being read may have

	// ranges that were read, at most Limits.Ranges; the one asked for longest ago
	// goes first.
	ranges []feedRange
	// reading are ranges under way: how many bytes they may have, by their first index.
	reading map[uint64]int64
	// Wanted goes out with the next Output.
	Wanted []Wanted
	// Missed: Raft has just got the answer that a range is not there, and asks for
	// a snapshot instead.
	Missed bool
	// Refused: a range that is needed now waits until others have been read, or given up.
	Refused bool
	// unused counts ticks in which nobody took anything.
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

// Wanted is a range to read: some Bytes of entries, and one at least.
type Wanted struct {
	Lo    uint64
	Bytes int
}

// Limits are those that a test may make smaller.
type Limits struct {
	Bytes  int64 // FeedBytes
	Least  int64 // leastFeed
	Ranges int   // feedRanges
}

// DefaultLimits are those of production.
func DefaultLimits() Limits { return Limits{Bytes: FeedBytes, Least: leastFeed, Ranges: feedRanges} }

const (
	// FeedBytes are read at once: enough for the disk to run at full speed. Where memory is
	// short it is less, and leastFeed at least.
	FeedBytes = 4 << 20
	leastFeed = 64 << 10
	// feedRanges bounds what feeding keeps in memory, by two ranges for each
	// of a good many followers.
	feedRanges = 8
	// FeedTicks after which what was read and not taken is let go: a second.
	FeedTicks = 20
)

// Take returns the entries from lo on, about maxBytes of them. When half of a
// range has been taken the next one is read.
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

// Term returns the term of an entry in a range that was read. If there is none, a
// range is read that begins with it.
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

// want has the range from lo on read. One that is needed now takes the place of others
// where memory is short; one that may be needed next is read where there is room.
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

// Add takes a range that was wanted; without entries it could not be read.
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

// drop lets the range go that was asked for longest ago.
func (f *Feed) drop() {
	f.count(-f.ranges[0].bytes)
	f.ranges = append(f.ranges[:0], f.ranges[1:]...)
}

func (f *Feed) count(bytes int64) {
	before := f.bytes
	f.bytes += bytes
	f.Memory.Changed(before, f.bytes)
}

// Clear lets all ranges go that were read.
func (f *Feed) Clear() {
	for len(f.ranges) > 0 {
		f.drop()
	}
	f.ranges = nil
}

// Release gives back its part of the memory. Nothing is read any more.
func (f *Feed) Release() { f.count(-f.bytes) }

// Tick releases what nobody takes any more.
func (f *Feed) Tick() {
	if f.unused++; f.unused > FeedTicks {
		f.Clear()
	}
}
