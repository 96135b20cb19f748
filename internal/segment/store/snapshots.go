package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

const snapshotsKept = 2

// snapshots manages the durable snapshots of a log.
type snapshots struct {
	*Dir
	*failure
	*list

	// Guarded by list.mu, since the beginning of the log determines which are kept.
	kept []uint64 // indexes, in ascending order
	// rotten are snapshots that are not valid: those that Recover skipped, and those that a scrub
	// found while no other was valid. They are set aside once another one is durable.
	rotten []uint64
}

// SaveSnapshot implements segment.Log. It does not touch the segments: an error leaves the log as
// it was and does not stop it.
func (n *snapshots) SaveSnapshot(index, term uint64, data []byte) error {
	n.upkeep.Lock()
	defer n.upkeep.Unlock()
	return n.save(index, term, data)
}

func (n *snapshots) save(index, term uint64, data []byte) error {
	if err := n.failed(); err != nil {
		return err
	}
	if n.beginsAbove(index) {
		return nil
	}
	if err := vfs.WriteFileDurably(n.FS, n.SnapshotPath(index), format.EncodeSnapshot(n.Options.Owner, index, term, data)); err != nil {
		return err
	}
	n.mu.Lock()
	if at, found := slices.BinarySearch(n.kept, index); !found {
		n.kept = slices.Insert(n.kept, at, index)
	}
	n.mu.Unlock()
	return errors.Join(n.setRottenAside(index), n.drop())
}

// setRottenAside is called when the snapshot saved is durable. That snapshot may have replaced a
// rotten one.
func (n *snapshots) setRottenAside(saved uint64) error {
	n.mu.Lock()
	rotten := slices.DeleteFunc(n.rotten, func(index uint64) bool { return index == saved })
	n.rotten = nil
	n.mu.Unlock()
	return n.setAside(rotten)
}

func (n *snapshots) setAside(snapshots []uint64) error {
	for _, index := range snapshots {
		n.forget(index)
		if err := n.SetAside(n.SnapshotPath(index)); err != nil {
			return fmt.Errorf("set a damaged snapshot aside: %w", err)
		}
	}
	if len(snapshots) == 0 {
		return nil
	}
	return n.SyncDir()
}

// beginsAbove reports whether the log begins above index, so that it cannot continue from there:
// a snapshot that was taken before a Reset may be saved after it.
func (n *snapshots) beginsAbove(index uint64) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.live) > 0 && index+1 < n.live[0].First
}

// drop removes snapshots that belong to no segment any more, except the newest.
func (n *snapshots) drop() error {
	n.mu.Lock()
	first := uint64(0)
	if len(n.live) > 0 {
		first = n.live[0].First
	}
	extra := 0
	for extra < len(n.kept)-snapshotsKept && n.kept[extra]+1 < first {
		extra++
	}
	drop := slices.Clone(n.kept[:extra])
	n.kept = slices.Delete(n.kept, 0, extra)
	n.mu.Unlock()
	for _, old := range drop {
		if err := n.FS.Remove(n.SnapshotPath(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

// forget removes a snapshot from the list. Its file stays for inspection.
func (n *snapshots) forget(index uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, found := slices.BinarySearch(n.kept, index); found {
		n.kept = slices.Delete(n.kept, at, at+1)
	}
	n.rotten = slices.DeleteFunc(n.rotten, func(rotten uint64) bool { return rotten == index })
}

// has reports whether there is a snapshot of the state after an entry. The caller holds mu.
func (n *snapshots) has(index uint64) bool {
	_, found := slices.BinarySearch(n.kept, index)
	return found
}

func (n *snapshots) LoadBase() (index, term uint64, data []byte, err error) {
	if err := n.failed(); err != nil {
		return 0, 0, nil, err
	}
	for {
		n.mu.RLock()
		base := n.live[0].First - 1
		found := n.has(base)
		n.mu.RUnlock()
		if !found {
			return 0, 0, nil, segment.ErrNoSnapshot
		}
		term, data, err := n.ReadSnapshot(base)
		if errors.Is(err, fs.ErrNotExist) && n.FirstIndex()-1 != base {
			continue // trimmed between the two steps
		}
		return base, term, data, err
	}
}

func (n *snapshots) LoadSnapshot() (index, term uint64, data []byte, err error) {
	if err := n.failed(); err != nil {
		return 0, 0, nil, err
	}
	return n.newestSnapshot(n.Snapshots())
}

func (n *snapshots) Snapshots() []uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	// The log no longer has the entries that follow an earlier snapshot.
	reached, _ := slices.BinarySearch(n.kept, n.live[0].First-1)
	return slices.Clone(n.kept[reached:])
}

// SnapshotPath returns the path of the snapshot of an entry.
func (d *Dir) SnapshotPath(index uint64) string {
	return filepath.Join(d.Path, fmt.Sprintf("%020d.snap", index))
}

// newestSnapshot reads the last valid one of snapshots. The file of one that is not valid stays
// for inspection.
func (d *Dir) newestSnapshot(snapshots []uint64) (index, term uint64, data []byte, err error) {
	for _, candidate := range slices.Backward(snapshots) {
		term, data, err := d.ReadSnapshot(candidate)
		switch {
		case err == nil:
			return candidate, term, data, nil
		case errors.As(err, new(*segment.CorruptError)):
			d.Options.Logger.Error("a snapshot is corrupt; trying the one before", "error", err)
		case !errors.Is(err, fs.ErrNotExist):
			return 0, 0, nil, err
		}
	}
	return 0, 0, nil, segment.ErrNoSnapshot
}

// ReadSnapshot reads the snapshot of an entry. The error is a *CorruptError if it is not valid,
// or if the disk cannot read it.
func (d *Dir) ReadSnapshot(index uint64) (term uint64, data []byte, err error) {
	term, data, _, err = d.ReadSnapshotAt(d.SnapshotPath(index), index)
	return term, data, err
}

// ReadSnapshotAt reads the snapshot of an entry from the file at path. It also returns the size
// of the file.
func (d *Dir) ReadSnapshotAt(path string, index uint64) (term uint64, data []byte, size int64, err error) {
	b, err := d.FS.ReadFile(path)
	switch {
	case vfs.Unreadable(err):
	case err != nil:
		return 0, nil, 0, fmt.Errorf("read snapshot: %w", err)
	default:
		term, data, err = format.ParseSnapshot(b, d.Options.Owner, index)
	}
	if err != nil {
		return 0, nil, int64(len(b)), &segment.CorruptError{File: path, FirstIndex: 1, LastIndex: index, Detail: err.Error()}
	}
	return term, data, int64(len(b)), nil
}
