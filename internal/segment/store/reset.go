package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

const resetSuffix = ".reset"

// Reset implements segment.Log. It goes through states that recovery distinguishes by file names
// alone:
//
//  1. The snapshot is written under a temporary name: the old log may have
//     another entry at its index, and must not use the snapshot.
//  2. The new first segment is written under a name of its own. If a crash
//     leaves that name, recovery continues from here.
//  3. The snapshot gets its name. From here on readers see the new log only:
//     they must not open a file that is about to be removed.
//  4. The old segments and snapshots are removed, and the begin mark moves to
//     the new segment.
//  5. The new segment gets its name, and the durable watermark is written.
func (s *Store) Reset(index, term uint64, start record.Offset, hs segment.HardState, snapshot []byte) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	if err := s.reset(index, term, start, hs, snapshot); err != nil {
		return s.fail(fmt.Errorf("reset to entry %d: %w", index, err))
	}
	return nil
}

func (s *Store) reset(index, term uint64, start record.Offset, hs segment.HardState, snapshot []byte) error {
	if err := vfs.WriteSynced(s.FS, s.SnapshotPath(index)+vfs.TemporarySuffix, format.EncodeSnapshot(s.Options.Owner, index, term, snapshot)); err != nil {
		return err
	}
	if err := s.SyncDir(); err != nil {
		return err
	}
	s.setHardState(hs)
	s.list.mu.RLock()
	old, kept := s.segments, slices.Clone(s.kept)
	s.list.mu.RUnlock()
	active := s.active
	begun, err := s.begin(&format.Header{
		Ordinal: active.Ordinal + 1, First: index + 1, TermBefore: term, Start: start,
	}, resetSuffix)
	if err != nil {
		return err
	}
	if err := s.nameSnapshot(index); err != nil {
		return errors.Join(err, begun.file.Close())
	}
	unnamed := begun.Path
	begun.Path = strings.TrimSuffix(unnamed, resetSuffix) + ".seg"
	begun.unnamed.Store(true)
	s.list.mu.Lock()
	for _, seg := range old {
		seg.gone, seg.removed = true, true
	}
	s.segments, s.live, s.kept, s.rotten = nil, nil, []uint64{index}, nil
	s.activate(begun)
	s.list.mu.Unlock()
	if err := s.release(active); err != nil {
		return err
	}
	if err := s.replaceBy(unnamed, begun, old, kept); err != nil {
		return err
	}
	begun.unnamed.Store(false)
	return s.watermark.Write(s.durable)
}

// nameSnapshot renames the snapshot of a Reset to its final name. After a crash it may have that
// name already.
func (d *Dir) nameSnapshot(index uint64) error {
	path := d.SnapshotPath(index)
	if err := d.FS.Rename(path+vfs.TemporarySuffix, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceBy removes segments and all snapshots except that of begun, and renames the file unnamed
// to begun.Path.
func (d *Dir) replaceBy(unnamed string, begun *Segment, segments []*Segment, snapshots []uint64) error {
	dropSummaries(d, segments)
	for _, seg := range segments {
		if err := d.FS.Remove(seg.Path); err != nil {
			return err
		}
	}
	for _, index := range snapshots {
		if index == begun.First-1 {
			continue
		}
		if err := d.FS.Remove(d.SnapshotPath(index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := d.Begin.Move(begun.Ordinal, begun.First); err != nil {
		return err
	}
	if err := d.SyncDir(); err != nil {
		return err
	}
	if err := d.FS.Rename(unnamed, begun.Path); err != nil {
		return err
	}
	return d.SyncDir()
}

// finishReset continues a Reset that a crash interrupted.
func (f *Files) finishReset() error {
	begun := f.resets[0]
	unnamed := begun.Path
	begun.Path = strings.TrimSuffix(unnamed, resetSuffix) + ".seg"
	err := f.dir.nameSnapshot(begun.First - 1)
	if err == nil {
		err = f.dir.replaceBy(unnamed, begun, f.Segments, f.Snapshots)
	}
	if err != nil {
		return fmt.Errorf("finish reset: %w", err)
	}
	f.dir.Options.Logger.Info("finished an interrupted reset", "file", begun.Path)
	return nil
}
