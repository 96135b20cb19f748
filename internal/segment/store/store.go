// Package store keeps one log in segment files. A Store consists of parts, each in a file of its
// name: list (the segments), loader (their open files, headers and indexes), reader, writer and
// newest (the end of the newest segment), snapshots, spares and filler (the files that become
// segments), WatermarkFile, Dir and Files (names).
//
// An append runs through write.go, roll.go and sync.go; a read through cursor.go, load.go and
// lookup.go; a restart through recover.go and scan.go. What a restart cannot detect by itself is
// in watermark.go.
package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Options configures a log. All but the owner are the same for all logs of a node.
type Options struct {
	// Owner is the owner of the log. The zero value is for tools, see segment.Owner.
	Owner segment.Owner

	// Watermark is the path of the durable watermark, see WatermarkFile. Outside the directory of
	// the log it detects that an older copy of the whole directory was restored. If empty, it is the
	// file "watermark" in the directory.
	Watermark string

	// SegmentBytes is the position at which a segment is full; 0 means 64 MiB. Only the footer, and
	// a single larger entry, extend beyond it.
	SegmentBytes int64

	// WatermarkBytes is how many bytes may become durable before the watermark is written, see
	// WatermarkFile; 0 means 8 MiB.
	WatermarkBytes int64

	// LeastStored is the average batch size in bytes from which on batches are handed out as ranges
	// of a file; 0 means 32 KiB.
	LeastStored int

	// SyncDelay is added to each fdatasync, to test the system with a slow disk.
	SyncDelay time.Duration

	// Manual prevents the Store from starting a goroutine: the caller must call Prepare. Otherwise a
	// goroutine calls it when there is something to prepare.
	Manual bool

	// Rand is the source of the salts of segments; nil means crypto/rand. It must not repeat its
	// output after a restart: frames of a recycled file differ in nothing else.
	Rand io.Reader

	// Logger receives what recovery found and repaired; nil means slog.Default.
	Logger *slog.Logger
}

const defaultSegmentBytes = 64 << 20

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.WatermarkBytes == 0 {
		o.WatermarkBytes = defaultWatermarkBytes
	}
	if o.LeastStored == 0 {
		o.LeastStored = leastStored
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

var _ segment.Log = (*Store)(nil)

// Store is a Log in a directory of its own:
//
//	<ordinal>-<first index>.seg    segments; the highest ordinal is the active one
//	<index>.snap                   snapshots: the state after the entry index
//	<ordinal>-<first index>.keys   the key summary of a segment, if there is one
//	<number>.spare                 zero-filled or recycled files that become segments
//	<ordinal>-<first index>.begin  the segment that the log begins with, see BeginMark
//	<ordinal>-<first index>.reset  a segment that is about to replace all others, see Reset
//	<index>.snap.tmp               a snapshot being written, or that of a Reset under way
//	<ordinal>-<first index>.repair   a rewritten segment that is about to replace a damaged one, see repair.Repairer
//	watermark                        a position up to which the log was durable, see Options.Watermark
//	*.bad                          damaged files that were replaced; nothing reads them
//
// All numbers have 20 decimal digits. The first index alone would not name a
// segment: after a torn tail, and when an entry truncates the first of a
// segment, two segments begin with the same index. The ordinal rises with
// each segment begun, so the higher one is valid.
type Store struct {
	*Dir
	*failure
	*list
	*hardState
	*loader
	*reader
	*snapshots
	*keySummaries
	*trimmer
	*filler
	*writer

	spares    *spares
	watermark *WatermarkFile
	readOnly  bool // Close writes nothing
}

// Create creates a new log in dir, which is durable on return. The error is fs.ErrExist if there
// is one. Files of an interrupted Create are removed.
func Create(disk vfs.FS, dir string, o Options, b segment.Bootstrap) (*Store, error) {
	s := newStore(disk, dir, o)
	if err := s.create(b); err != nil {
		return nil, fmt.Errorf("create log in %s: %w", dir, errors.Join(err, s.closeHandles()))
	}
	s.filler.start()
	return s, nil
}

func newStore(disk vfs.FS, dir string, o Options) *Store {
	d := NewDir(disk, dir, o)
	failed, l, hard, busy := &failure{path: dir}, &list{}, &hardState{}, &activity{}
	mark, names := NewWatermarkFile(d), &names{Dir: d}
	pool := &spares{Dir: d, busy: busy}
	opened := &loader{Dir: d, failure: failed, list: l, spares: pool}
	found := &reader{opened}
	end := &newest{Dir: d, list: l, hardState: hard, spares: pool, busy: busy}
	kept := &snapshots{Dir: d, failure: failed, list: l}
	return &Store{
		Dir: d, failure: failed, list: l, hardState: hard, loader: opened, reader: found,
		snapshots: kept, keySummaries: &keySummaries{found}, trimmer: &trimmer{opened, kept},
		filler: &filler{Dir: d, failure: failed, list: l, activity: busy, spares: pool, names: names},
		writer: &writer{newest: end, failure: failed, reader: found, names: names, watermark: mark},
		spares: pool, watermark: mark,
	}
}

func (s *Store) closeHandles() error { return errors.Join(s.watermark.Close(), s.Dir.close()) }

func (s *Store) create(b segment.Bootstrap) error {
	if err := s.Options.Owner.Validate(); err != nil {
		return err
	}
	if err := s.FS.MkdirAll(s.Path); err != nil {
		return err
	}
	if err := s.hold(); err != nil {
		return err
	}
	found, err := s.List()
	if err != nil {
		return err
	}
	if len(found.Segments) > 0 || len(found.resets) > 0 {
		return fs.ErrExist
	}
	for _, name := range found.all {
		if err := s.FS.Remove(filepath.Join(s.Path, name)); err != nil {
			return err
		}
	}
	if len(b.ConfState) > format.MaxConfState {
		return fmt.Errorf("configuration of %d bytes, the limit of a segment header is %d", len(b.ConfState), format.MaxConfState)
	}
	s.hard, s.conf = b.HardState, b.ConfState
	if err := s.SaveSnapshot(b.Index, b.Term, b.Snapshot); err != nil {
		return err
	}
	if err := s.spares.prepareFirst(); err != nil {
		return err
	}
	begun, err := s.writer.begin(&format.Header{Ordinal: 1, First: b.Index + 1, TermBefore: b.Term, Start: b.Start}, ".seg")
	if err != nil {
		return err
	}
	s.list.mu.Lock()
	s.activate(begun)
	s.list.mu.Unlock()
	if err := s.Begin.Move(begun.Ordinal, begun.First); err != nil {
		return err
	}
	if _, err = s.spares.prepare(); err != nil { // syncs the directory
		return err
	}
	return s.watermark.Write(s.durable)
}

// Close writes a sync mark, makes everything durable, and closes the files. Cursors may still be
// in use; their next read fails.
func (s *Store) Close() error {
	s.filler.stop()
	err := s.failed()
	if errors.Is(err, segment.ErrClosed) {
		return nil
	}
	for _, step := range []func() error{s.writer.sync, s.Mark, s.writer.sync} {
		if err == nil && !s.readOnly {
			err = step()
		}
	}
	s.failure.close()
	return errors.Join(err, s.spares.close(), s.release(s.active), s.closeHandles())
}
