package store

import (
	"errors"
	"fmt"
	"io/fs"

	"strandline.dev/internal/segment"
)

// trimmer removes segments from the front of the log.
type trimmer struct {
	*loader
	snapshots *snapshots
}

// Trim removes whole segments from the front of the log, up to one whose start has a snapshot:
// the log cannot begin without one. Their files become spares if the log is busy enough to need
// them soon, and are removed otherwise. A segment with readers leaves the log now; its last
// reader removes the file.
//
// One call removes about trimStep segments. The directory is synced twice for them, and the
// journal entry that the file system writes for their removal stays small, since the syncs of the
// writer may have to wait for it.
func (t *trimmer) Trim(below uint64) (more bool, err error) {
	t.upkeep.Lock()
	defer t.upkeep.Unlock()
	if err := t.failed(); err != nil {
		return false, err
	}
	drop, oldest, more, err := t.front(below)
	if err != nil || drop == 0 {
		return false, err
	}
	// The first index, its term and its offset must be available in memory at any time.
	if _, err := t.headerOf(oldest); err != nil {
		return false, fmt.Errorf("trim below entry %d: %w", below, err)
	}
	if err := t.beginAt(drop); err != nil {
		return false, fmt.Errorf("trim below entry %d: %w", below, err)
	}
	gone := t.all()[:drop]
	unused := t.dropFront(drop, oldest.First)
	dropSummaries(t.Dir, gone)
	if err := bug(t.checkFront()); err != nil {
		return false, t.fail(err)
	}
	err = errors.Join(t.spares.retire(unused), t.snapshots.drop())
	return more && err == nil, err
}

const trimStep = 16

// beginAt makes it durable that the first n segments are no longer part of the log.
func (t *trimmer) beginAt(n int) error {
	t.mu.RLock()
	first := t.segments[n]
	t.mu.RUnlock()
	if err := t.Begin.Move(first.Ordinal, first.First); err != nil {
		return err
	}
	return t.SyncDir()
}

// front returns how many segments may be removed in one step, the live segment that is the oldest
// afterwards, and whether more may be removed. It reads the snapshot of that segment: once the
// earlier segments are gone, there is no other to begin with.
func (t *trimmer) front(below uint64) (drop int, oldest *Segment, more bool, err error) {
	for {
		drop, more = 0, false
		t.mu.RLock()
		for n := 1; n < len(t.segments) && t.segments[n-1].end <= below; n++ {
			if more = drop > 0 && n > trimStep; more {
				break
			}
			if next := t.liveFrom(t.segments[n].Ordinal); t.snapshots.has(next.First - 1) {
				drop, oldest = n, next
			}
		}
		t.mu.RUnlock()
		if drop == 0 {
			return 0, nil, false, nil
		}
		_, _, err := t.ReadSnapshot(oldest.First - 1)
		if err == nil {
			return drop, oldest, more, nil
		}
		if !errors.As(err, new(*segment.CorruptError)) && !errors.Is(err, fs.ErrNotExist) {
			return 0, nil, false, fmt.Errorf("trim below entry %d: %w", below, err)
		}
		t.Options.Logger.Error("a snapshot is unusable; trimming less", "error", err)
		t.snapshots.forget(oldest.First - 1)
	}
}
