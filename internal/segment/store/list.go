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

// list is the segments of a log, and which of them have valid entries.
type list struct {
	// mu guards what readers share with the writer. It is never held over a
	// system call that waits for the disk.
	mu sync.RWMutex
	// segments are all segments of the log, by ascending ordinal without a gap.
	segments []*Segment
	// live are the segments that may have valid entries, by ascending first index. A later segment
	// hides all before it that begin at its first index or above.
	live []*Segment
	// active is the last of segments and of live. Only the writer changes it,
	// so the writer reads it without mu.
	active *Segment

	// upkeep is held during SaveSnapshot, each step of Trim, Reset and Exchange: each of them
	// removes files that the others use.
	upkeep sync.Mutex
}

// Segment is one segment file. Fields without a comment never change.
type Segment struct {
	Ordinal uint64
	First   uint64
	Path    string

	loading sync.Mutex // held while header, index or file are loaded

	// Guarded by list.mu.
	header *format.Header   // nil until needed
	terms  []format.TermRun // nil until needed
	index  *format.Index    // nil unless the segment is in use or has no footer
	file   vfs.File         // nil unless the segment is in use
	footer bool             // the index can be read from a footer
	users  int              // cursors and running calls; one more for the active segment
	end    uint64           // index behind the last valid entry; for the active segment: index.Next
	Size   int64            // of the file
	// gone is set when the segment has left the log. The last user removes the file unless removed
	// is set.
	gone, removed bool

	unnamed    atomic.Bool // the file does not have its name yet
	summarized atomic.Bool // a key summary file exists, which may not be valid

	verified verified
	// begun is set if the segment was created since the log was opened, sent if bytes of its file
	// were handed out to be sent by reference, see NextStored. Bytes of an older segment may still
	// be in a socket, perhaps one of an earlier process. So only a segment that was begun and not
	// sent is recycled, see spares.of.
	begun bool
	sent  atomic.Bool

	durable atomic.Int64 // of the active segment: everything in front of this position is durable
	filled  atomic.Int64 // blocks up to here are allocated: writing there does not grow the file
}

// push adds seg to the live segments and removes those that it hides.
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

// Bytes returns the size of all segment files in bytes. Spares are not counted, since there are
// few, nor are snapshots, which are small beside their segments.
func (l *list) Bytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sum := int64(0)
	for _, seg := range l.segments {
		sum += max(seg.Size, seg.filled.Load())
	}
	return sum
}

// liveAt returns the position in live of the segment that holds entry i, which must not be below
// the first index. The caller holds mu.
func (l *list) liveAt(i uint64) int {
	return sort.Search(len(l.live), func(k int) bool { return l.live[k].First > i }) - 1
}

// liveFrom returns the first live segment with the given ordinal or a higher one. The caller
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

// dropFront removes the first n segments from the log, so that it begins at the entry first, and
// returns those that have no users. The segment that begins there may be hidden by now: a write
// truncated its first entry.
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

// all returns the segments. Some of them may leave the log afterwards.
func (l *list) all() []*Segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.segments)
}

// install replaces the segments that have the same ordinals as fresh. It returns the old ones
// with their loading mutex locked, so that no one opens them while names change.
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
		return nil, err // no trim can interfere while upkeep is held
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
