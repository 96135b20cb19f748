package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// Options of a log. All but the owner are the same for all logs of a node.
type Options struct {
	// Owner is whose log it is. The zero value is for tools, see Owner.
	Owner segment.Owner

	// Watermark is the path of the durable watermark, see WatermarkFile. Outside the
	// directory of the log it notices that an older copy of the whole directory
	// was brought back. Empty: the file "watermark" in the directory.
	Watermark string

	// SegmentBytes is the position at which a segment is full; 0 means 64 MiB.
	// Only its footer, and an entry larger than that, lie beyond.
	SegmentBytes int64

	// WatermarkBytes may become durable before the watermark is written, see
	// WatermarkFile; 0 means 8 MiB.
	WatermarkBytes int64

	// SyncDelay is slept after each fdatasync, to see how the system behaves
	// on a slow disk.
	SyncDelay time.Duration

	// Manual starts no goroutine: the owner calls Prepare. Otherwise a
	// goroutine of the Store does, whenever there is something to prepare.
	Manual bool

	// Rand gives the salts of segments; nil means crypto/rand. It must not
	// give again after a restart what it gave before: frames of a recycled
	// file differ in nothing else.
	Rand io.Reader

	// Logger hears what recovery found and repaired; nil means slog.Default.
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
//	<number>.spare                 zero-filled or recycled files: segments to be
//	<ordinal>-<first index>.begin  the segment that the log begins with, see beginMark
//	<ordinal>-<first index>.reset  a segment that is about to replace all others, see Reset
//	<index>.snap.tmp               a snapshot being written, or that of a Reset under way
//	<ordinal>-<first index>.repair   a segment made anew that is about to replace a damaged one, see Repairer
//	watermark                        how far the log certainly went, see Options.Watermark
//	*.bad                          damaged files that were replaced; nothing reads them
//
// All numbers have 20 decimal digits. The first index alone would not name a
// segment: after a torn tail, and when an entry truncates the first of a
// segment, two segments begin with the same index. The ordinal rises with
// each segment begun, so it tells which of them counts.
type Store struct {
	*Dir

	// mu guards what readers share with the writer. It is never held over a
	// system call that waits for the disk.
	mu      sync.RWMutex
	failure error // the first failed write or sync: nothing works after it
	// segments are all files of the log, by rising ordinal without a gap.
	segments []*Segment
	// live are the segments of which some entry may count, by rising first
	// index: a later segment hides all before it that begin at its first
	// index or above.
	live []*Segment
	// active is the last of segments and of live. Only the writer changes it,
	// so the writer reads it without mu.
	active    *Segment
	conf      []byte // never changes
	hard      segment.HardState
	snapshots []uint64 // indexes of durable snapshots, rising
	// rotten are snapshots that cannot be read, where no other can: they are set aside
	// once another is durable.
	rotten []uint64

	// upkeep is held over SaveSnapshot, each step of Recycle, and Reset, which
	// removes the files that those two work on.
	upkeep sync.Mutex

	// sealNext is the ordinal of an active segment that is damaged: the next write
	// begins another, see OpenRepair.
	sealNext atomic.Uint64

	// The fields below are the writer's own.

	position   int64  // where the next frame goes in the active segment
	synced     int64  // everything in front of it in the active segment is durable
	marked     int64  // position behind the newest sync mark
	before     uint32 // header CRC of the last frame
	torn       bool   // the active segment ends in a torn tail, or was repaired, and takes no more frames
	gather     gather
	staged     []stagedFrame
	stagedNext uint64 // one beyond the last entry written or staged

	durable   format.Watermark // everything durable
	watermark *WatermarkFile

	spares spares
	names  names
	filler filler
}

// Segment is one file. Fields without a remark never change.
type Segment struct {
	Ordinal uint64
	First   uint64
	Path    string

	loading sync.Mutex // held while header, index or file are loaded

	// Guarded by Store.mu.
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

	unnamed atomic.Bool // the file has yet to get its name

	durable atomic.Int64 // position in front of which everything is, of the active segment
	filled  atomic.Int64 // blocks up to here are allocated: writing there does not grow the file
}

// Create makes a new log in dir, durable when it returns. It refuses with
// fs.ErrExist if there is one. What an interrupted Create left is removed.
func Create(disk vfs.FS, dir string, o Options, b segment.Bootstrap) (*Store, error) {
	s := newStore(disk, dir, o)
	if err := s.create(b); err != nil {
		return nil, fmt.Errorf("create log in %s: %w", dir, errors.Join(err, s.closeHandles()))
	}
	s.startFiller()
	return s, nil
}

func newStore(disk vfs.FS, dir string, o Options) *Store {
	d := NewDir(disk, dir, o)
	return &Store{Dir: d, watermark: NewWatermarkFile(d)}
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
		return fmt.Errorf("configuration of %d bytes, a segment header holds %d", len(b.ConfState), format.MaxConfState)
	}
	s.hard, s.conf = b.HardState, b.ConfState
	if err := s.SaveSnapshot(b.Index, b.Term, b.Snapshot); err != nil {
		return err
	}
	if _, err := s.prepareSpare(); err != nil {
		return err
	}
	begun, err := s.begin(&format.Header{Ordinal: 1, First: b.Index + 1, TermBefore: b.Term, Start: b.Start}, ".seg")
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.activate(begun)
	s.mu.Unlock()
	if err := s.MoveBegin(begun.Ordinal, begun.First); err != nil {
		return err
	}
	if _, err = s.prepareSpare(); err != nil { // syncs the directory
		return err
	}
	return s.watermark.Write(s.durable)
}

// begin makes the file of a segment with header h. It gets salt, hard state and
// configuration here. A crash leaves either no such segment or one that is
// complete and empty. Of a segment that follows another only the content is
// durable on return: its name is when the filler has synced the directory.
func (s *Store) begin(h *format.Header, suffix string) (*Segment, error) {
	var salt [8]byte
	if _, err := io.ReadFull(s.Options.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("draw a salt: %w", err)
	}
	h.Salt, h.Owner = binary.LittleEndian.Uint64(salt[:]), s.Options.Owner
	h.Hard, h.Conf = s.HardState(), s.conf
	spare, err := s.takeSpare()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.Path, SegmentName(h.Ordinal, h.First)+suffix)
	err = func() error {
		if _, err := spare.file.WriteAt(h.Encode(), 0); err != nil {
			return err
		}
		if err := spare.file.Datasync(); err != nil {
			return err
		}
		if err := s.FS.Rename(spare.path, path); err != nil {
			return err
		}
		if h.Follows() && spare.named {
			s.names.owe() // recovery knows the segment by its header, see adoptBegun
			return nil
		}
		return s.SyncDir()
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin segment %s: %w", path, err), spare.file.Close())
	}
	seg := &Segment{
		Ordinal: h.Ordinal, First: h.First, Path: path, header: h, index: format.NewIndex(h),
		file: spare.file, users: 1, end: h.First, Size: max(spare.filled, format.HeaderSize),
	}
	seg.filled.Store(seg.Size)
	return seg, nil
}

// activate makes seg the active segment. The caller holds mu.
func (s *Store) activate(seg *Segment) {
	s.segments = append(s.segments, seg)
	s.active = seg
	s.push(seg)
	s.position, s.marked = format.HeaderSize, format.HeaderSize
	s.before, s.torn = seg.header.Crc, false
	s.stagedNext = seg.First
	s.filler.position.Store(format.HeaderSize)
	s.noteDurable()
}

// push adds seg to the live segments; those that it hides leave.
func (s *Store) push(seg *Segment) {
	keep := len(s.live)
	for keep > 0 && s.live[keep-1].First >= seg.First {
		keep--
		s.live[keep].end = s.live[keep].First
	}
	s.live = append(s.live[:keep], seg)
	if keep > 0 {
		s.live[keep-1].end = seg.First
	}
}

// fail keeps the first reason and returns it.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = fmt.Errorf("log in %s stopped: %w", s.Path, err)
	}
	return s.failure
}

func (s *Store) failed() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.failure
}

func (s *Store) FirstIndex() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live[0].First
}

func (s *Store) LastIndex() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.active.index.Next - 1
}

func (s *Store) StartOffset() record.Offset {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live[0].header.Start
}

func (s *Store) HardState() segment.HardState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hard
}

func (s *Store) ConfState() []byte { return s.conf }

// Bytes is the size of the files of all segments. Spares are not counted, there
// are few; nor are snapshots, one for each segment and small beside it.
func (s *Store) Bytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sum := int64(0)
	for _, seg := range s.segments {
		sum += max(seg.Size, seg.filled.Load())
	}
	return sum
}

// liveAt returns the live segment that entry i belongs to; i is not below the
// first index. The caller holds mu.
func (s *Store) liveAt(i uint64) int {
	return sort.Search(len(s.live), func(k int) bool { return s.live[k].First > i }) - 1
}

// Close notes that everything is durable, makes it so, and closes the files.
// Cursors may outlive it; their next read fails.
func (s *Store) Close() error {
	s.stopFiller()
	err := s.failed()
	if errors.Is(err, segment.ErrClosed) {
		return nil
	}
	for _, step := range []func() error{s.sync, s.Mark, s.sync} {
		if err == nil {
			err = step()
		}
	}
	s.mu.Lock()
	if s.failure == nil {
		s.failure = segment.ErrClosed
	}
	active := s.active
	s.mu.Unlock()
	return errors.Join(err, s.closeSpares(), s.release(active), s.closeHandles())
}
