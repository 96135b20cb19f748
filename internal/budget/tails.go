package budget

import "sync/atomic"

// Tails are the newest entries of all logs in memory. A log cannot be refused what
// it appends; it is told how much of what has been applied it may keep.
type Tails struct {
	size    int64
	used    atomic.Int64
	holders atomic.Int64 // logs that hold something
}

// NewTails makes a part of so many bytes.
func NewTails(size int64) *Tails { return &Tails{size: size} }

// Changed counts what a log holds, after and before.
func (t *Tails) Changed(before, after int64) {
	t.used.Add(after - before)
	switch {
	case before == 0 && after > 0:
		t.holders.Add(1)
	case before > 0 && after == 0:
		t.holders.Add(-1)
	}
}

// Share is how much a log may keep that would keep most: all of that while there is
// room, and the same as all others where there is none.
func (t *Tails) Share(most int64) int64 {
	if t.used.Load() <= t.size-t.size/4 {
		return most
	}
	return min(most, t.size/max(1, t.holders.Load()))
}

// Tight reports whether there is so little room that nothing should be kept for use
// again.
func (t *Tails) Tight() bool { return t.used.Load() > t.size/2 }

// Used is what all logs hold, Size what they should hold at most.
func (t *Tails) Used() int64 { return t.used.Load() }
func (t *Tails) Size() int64 { return t.size }
