package lagging

import "go.etcd.io/raft/v3/raftpb"

// Feed brings entries that have left memory to followers who lag. Raft asks
// for them on the loop, where a disk must not be read; so it hears that there
// are none, which makes it wait, and the range is read aside. When it has
// come, Raft is nudged to ask again.
type Feed struct {
	// ranges that were read, at most feedRanges; the one asked for longest ago
	// goes first.
	ranges []feedRange
	// reading are the first indexes of ranges under way.
	reading map[uint64]bool
	// Wanted goes out with the next Output.
	Wanted []uint64
	// Missed: Raft has just been told that a range is not there, and asks for a
	// snapshot instead.
	Missed bool
	// unused counts ticks in which nobody took anything.
	unused int
}

type feedRange struct {
	entries []*raftpb.Entry
}

const (
	// FeedBytes are read at once: enough for the disk to run at full speed.
	FeedBytes = 4 << 20
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
		first := r.entries[0].GetIndex()
		if lo < first || lo >= first+uint64(len(r.entries)) {
			continue
		}
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
			f.want(behind)
		}
		f.Missed = false
		return from[:n:n], true
	}
	f.want(lo)
	f.Missed = true
	return nil, false
}

// Term returns the term of an entry in a range that was read. If there is none, a
// range is read that begins with it.
func (f *Feed) Term(index uint64) (term uint64, ok bool) {
	f.unused = 0
	for _, r := range f.ranges {
		if first := r.entries[0].GetIndex(); index >= first && index < first+uint64(len(r.entries)) {
			return r.entries[index-first].GetTerm(), true
		}
	}
	f.want(index)
	f.Missed = true
	return 0, false
}

func (f *Feed) want(lo uint64) {
	if f.reading[lo] || len(f.reading) >= feedRanges {
		return
	}
	for _, r := range f.ranges {
		if first := r.entries[0].GetIndex(); lo >= first && lo < first+uint64(len(r.entries)) {
			return
		}
	}
	if f.reading == nil {
		f.reading = map[uint64]bool{}
	}
	f.reading[lo] = true
	f.Wanted = append(f.Wanted, lo)
}

func (f *Feed) Add(lo uint64, entries []*raftpb.Entry) {
	delete(f.reading, lo)
	if len(entries) == 0 {
		return
	}
	f.ranges = append(f.ranges, feedRange{entries})
	if len(f.ranges) > feedRanges {
		f.ranges = append(f.ranges[:0], f.ranges[1:]...)
	}
}

func (f *Feed) Clear() { f.ranges = nil }

// Tick releases what nobody takes any more.
func (f *Feed) Tick() {
	if f.unused++; f.unused > FeedTicks {
		f.ranges = nil
	}
}
