package store

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// list is the segments of a log: which there are, and which of them count.
type list struct {
	// mu guards what readers share with the writer. It is never held over a
	// system call that waits for the disk.
	mu sync.RWMutex
	// segments are all files of the log, by rising ordinal without a gap.
	segments []*Segment
	// live are the segments of which some entry may count, by rising first
	// index: a later segment hides all before it that begin at its first
	// index or above.
	live []*Segment
	// active is the last of segments and of live. Only the writer changes it,
	// so the writer reads it without mu.
	active *Segment

	// upkeep is held over SaveSnapshot, each step of Trim, Reset and Exchange: they
	// remove files that the others work on.
	upkeep sync.Mutex
}

// Segment is one file. Fields without a remark never change.
type Segment struct {
	Ordinal uint64
	First   uint64
	Path    string

	loading sync.Mutex // held while header, index or file are loaded

	// Guarded by list.mu.
	header *format.Header   // nil until it is needed
	terms  []format.TermRun // nil until they are needed
	index  *format.Index    // nil unless the segment is in use or has no footer
	file   vfs.File         // nil unless the segment is in use
	footer bool             // the index can be read from a footer
	users  int              // cursors and calls under way; one more for the active segment
	end    uint64           // one beyond the last entry that counts; of the active segment: index.next
	Size   int64            // of the file
	// gone: it has left the log. The last user removes the file, unless it
	// was removed already.
	gone, removed bool

	unnamed    atomic.Bool // the file has yet to get its name
	summarized atomic.Bool // a file with its key summary is there, which may be wrong

	verified verified
	// begun: it was begun since the log was opened. sent: stored bytes of it were given out to
	// be sent by reference, see NextStored. Which of another are still in a socket, perhaps of
	// a process before this one, nobody knows; so only a segment that was begun and not sent
	// is recycled, see spares.of.
	begun bool
	sent  atomic.Bool

	durable atomic.Int64 // position in front of which everything is, of the active segment
	filled  atomic.Int64 // blocks up to here are allocated: writing there does not grow the file
}

// push adds seg to the live segments; those that it hides leave.
func (l *list) push(seg *Segment) {
	keep := len(l.live)
	for keep > 0 && l.live[keep-1].First >= seg.First {
		keep--
		l.live[keep].end = l.live[keep].First
	}
	l.live = append(l.live[:keep], seg)
	if keep > 0 {
		l.live[keep-1].end = seg.First
	}
}

func (l *list) FirstIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.live[0].First
}

func (l *list) LastIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.active.index.Next - 1
}

func (l *list) StartOffset() record.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.live[0].header.Start
}

// Bytes is the size of the files of all segments. Spares are not counted, there
// are few; nor are snapshots, one for each segment and small beside it.
func (l *list) Bytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sum := int64(0)
	for _, seg := range l.segments {
		sum += max(seg.Size, seg.filled.Load())
	}
	return sum
}

// liveAt returns the live segment that entry i belongs to; i is not below the
// first index. The caller holds mu.
func (l *list) liveAt(i uint64) int {
	return sort.Search(len(l.live), func(k int) bool { return l.live[k].First > i }) - 1
}

// liveFrom returns the first live segment of an ordinal or above. The caller
// holds mu.
func (l *list) liveFrom(ordinal uint64) *Segment {
	for _, seg := range l.live {
		if seg.Ordinal >= ordinal {
			return seg
		}
	}
	return l.active
}

func (l *list) isActive(seg *Segment) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.active == seg
}

// dropFront takes the first n segments out of the log, so that it begins at the
// entry first, and returns those that nobody uses. The segment that begins there
// may be hidden by now: a write truncated its first entry.
func (l *list) dropFront(n int, first uint64) (unused []*Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.segments[:n] {
		seg.gone = true
		if seg.users == 0 {
			unused = append(unused, seg)
		}
	}
	l.segments = append([]*Segment(nil), l.segments[n:]...)
	for l.live[0].First < first {
		l.live = l.live[1:]
	}
	return unused
}

func (l *list) liveSegments() []*Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.live)
}

func (l *list) hasLeft(seg *Segment) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return seg.gone
}

// all returns the segments, of which some may leave the log from now on.
func (l *list) all() []*Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.segments)
}

// install shows segments instead of those with the same ordinals, which it
// returns with their loading locked: nobody opens one while names change.
func (l *list) install(fresh []*Segment) (old []*Segment, err error) {
	l.mu.RLock()
	for _, seg := range fresh {
		at := int64(seg.Ordinal) - int64(l.segments[0].Ordinal)
		if at < 0 || at >= int64(len(l.segments)) {
			err = fmt.Errorf("segment %s left the log: %w", seg.Path, segment.ErrTrimmed)
			break
		}
		old = append(old, l.segments[at])
	}
	l.mu.RUnlock()
	if err != nil {
		return nil, err // nothing else trims while upkeep is held
	}
	for _, seg := range old {
		seg.loading.Lock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments, l.live = slices.Clone(l.segments), slices.Clone(l.live)
	for i, seg := range fresh {
		seg.end = old[i].end
		l.segments[seg.Ordinal-l.segments[0].Ordinal] = seg
		if at := slices.Index(l.live, old[i]); at >= 0 {
			l.live[at] = seg
		}
		old[i].gone, old[i].removed = true, true
	}
	return old, nil
}
