package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"strandline.dev/internal/vfs"
)

// An fdatasync of a file that grows has to write the file system's journal
// too, which on the disks we know costs half as much again. So files are
// filled with zeros ahead of the writer, off its path, as far ahead as the log
// is busy: the active segment a little for an idle log, the whole next
// segment for one that fills a segment without a pause.
//
// Zeros take bandwidth of the same disk: 0.6 us a KiB, where growth costs a
// sync 30 us and 0.3 us a KiB. From writes of about 90 KiB on, growing is the
// cheaper way, and a log that makes such writes is not filled ahead. Recycled
// files cost neither.

const (
	// fillMin is kept filled in the active segment and in the spare of an idle
	// log. A thousand untouched logs occupy half a GiB.
	fillMin = 256 << 10
	// fillStep bounds how long a write that needs the file has to wait.
	fillStep = 1 << 20
	// kickBytes are written between two looks at what is to be filled. It is
	// small beside fillMin, and lone appends do not wake another goroutine.
	kickBytes = 32 << 10
	// fillBelow is the average size of writes below which filling pays.
	fillBelow = 64 << 10
	// footerRoom is filled behind SegmentBytes.
	footerRoom = 64 << 10
	// sparesMax are kept; more recycled segments than that are removed.
	sparesMax = 2
)

var zeros [fillStep]byte

// spares are the files that become segments. One is always there, except on a
// full disk: the log takes commands and votes in it when there is no room for
// appends.
type spares struct {
	// mu is held over each step of filling, so that the writer never writes
	// where zeros are on their way. The writer takes it once per segment, and
	// when it has caught up with the filler.
	mu     sync.Mutex
	kept   []*spare
	number uint64 // of the newest spare
}

type spare struct {
	path   string
	file   vfs.File // nil: not opened yet
	filled int64
	named  bool // its name is durable
}

// filler knows how busy the log is.
type filler struct {
	position atomic.Int64 // of the writer in the active segment
	recent   atomic.Int64 // bytes written since the log was last idle, at most a segment's
	average  atomic.Int64 // bytes of a write, lately
	unkicked int64        // bytes written since the last kick; the writer's own

	wake, quit, done chan struct{} // nil with Options.Manual
}

func (f *filler) wrote(bytes, position, most int64) {
	f.position.Store(position)
	f.recent.Store(min(most, f.recent.Load()+bytes))
	f.average.Store((7*f.average.Load() + bytes) / 8)
	if f.unkicked += bytes; f.unkicked >= kickBytes {
		f.unkicked = 0
		f.kick()
	}
}

func (f *filler) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// shrink is called when the log has fallen idle.
func (f *filler) shrink() { f.recent.Store(0) }

// startFiller starts the goroutine that prepares. stopFiller waits for it.
func (s *Store) startFiller() {
	if s.Options.Manual {
		return
	}
	f := &s.filler
	f.wake, f.quit, f.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(f.done)
		for {
			select {
			case <-f.wake:
			case <-f.quit:
				return
			}
			if more, err := s.Prepare(); more && err == nil {
				f.kick()
			}
		}
	}()
	f.kick()
}

func (s *Store) stopFiller() {
	if s.filler.quit == nil {
		return
	}
	close(s.filler.quit)
	<-s.filler.done
	s.filler.quit = nil
}

// Prepare makes the name of the newest segment durable, and the spare if there
// is none, or fills one step of the active segment or of the spare. An error is ENOSPC, and then Room is 0 unless the
// spare is there, or has failed the log.
func (s *Store) Prepare() (more bool, err error) {
	if err := s.failed(); err != nil {
		return false, err
	}
	if _, err := s.syncNames(); err != nil {
		return false, s.fail(err)
	}
	if more, err = s.prepareSpare(); more || err != nil {
		return more, err
	}
	if s.filler.average.Load() >= fillBelow {
		return false, nil
	}
	ahead := s.filler.position.Load() + max(s.filler.recent.Load(), min(fillMin, s.Options.SegmentBytes))
	full := s.Options.SegmentBytes + footerRoom
	if more, err = s.fillActive(min(ahead, full)); more || err != nil {
		return more, err
	}
	return s.fillSpare(min(ahead-s.Options.SegmentBytes, full))
}

// prepareSpare makes a spare if there is none, and opens the one that is next.
func (s *Store) prepareSpare() (made bool, err error) {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	if sp := s.fullestSpare(); sp != nil {
		return false, s.openSpare(sp) // the writer must not have to, see handles
	}
	sp, err := s.newSpare()
	if err != nil {
		return false, err
	}
	if err := sp.fill(min(fillMin, s.Options.SegmentBytes)); err != nil {
		return false, errors.Join(err, sp.file.Close(), s.FS.Remove(sp.path))
	}
	if err := s.SyncDir(); err != nil {
		return false, errors.Join(err, sp.file.Close(), s.FS.Remove(sp.path))
	}
	sp.named = true
	s.spares.kept = append(s.spares.kept, sp)
	return true, nil
}

func (s *Store) newSpare() (*spare, error) {
	sp := &spare{path: s.sparePath()}
	var err error
	sp.file, err = s.FS.Create(sp.path)
	if err != nil {
		return nil, fmt.Errorf("make a spare segment: %w", err)
	}
	return sp, nil
}

// sparePath returns the path of the next spare. The caller holds spares.mu.
func (s *Store) sparePath() string {
	s.spares.number++
	return filepath.Join(s.Path, fmt.Sprintf("%020d.spare", s.spares.number))
}

// fill writes at most one step of zeros.
func (sp *spare) fill(to int64) error {
	n := min(to-sp.filled, fillStep)
	if _, err := sp.file.WriteAt(zeros[:n], sp.filled); err != nil {
		return fmt.Errorf("fill %s: %w", sp.path, err)
	}
	if err := sp.file.Datasync(); err != nil {
		return fmt.Errorf("fill %s: %w", sp.path, err)
	}
	sp.filled += n
	return nil
}

// fillSpare brings the fullest spare nearer to size to.
func (s *Store) fillSpare(to int64) (more bool, err error) {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	sp := s.fullestSpare()
	if sp == nil || to <= sp.filled || to-sp.filled < fillStep && to < s.Options.SegmentBytes+footerRoom {
		return false, nil
	}
	if err := s.openSpare(sp); err != nil {
		return false, err
	}
	if err := sp.fill(to); err != nil {
		return false, err
	}
	return sp.filled < to, nil
}

// fillActive brings the filled part of the active segment nearer to to. It
// has a handle of its own: the kernel reports a failed write-back once to
// each handle, and the writer's sync must not miss one.
//
// The file may belong to another segment by the time it is open. While the
// segment is the active one and spares.mu is held it cannot: somebody has to
// take it as a spare first.
func (s *Store) fillActive(to int64) (more bool, err error) {
	s.mu.RLock()
	active := s.active
	s.mu.RUnlock()
	filled := active.filled.Load()
	low := filled-s.filler.position.Load() < min(fillMin, s.Options.SegmentBytes)/2
	if to <= filled || to-filled < fillStep && !low {
		return false, nil
	}
	file, err := s.FS.Open(active.Path)
	if err != nil {
		return false, fmt.Errorf("fill %s: %w", active.Path, err)
	}
	defer file.Close()
	s.spares.mu.Lock()
	if !s.isActive(active) {
		s.spares.mu.Unlock()
		return false, nil
	}
	filled = active.filled.Load()
	n := min(to-filled, fillStep)
	if n > 0 {
		if _, err = file.WriteAt(zeros[:n], filled); err == nil {
			active.filled.Store(filled + n)
		}
	}
	s.spares.mu.Unlock()
	if errors.Is(err, syscall.ENOSPC) {
		return false, fmt.Errorf("fill %s: %w", active.Path, err)
	}
	if err == nil {
		err = file.Datasync()
	}
	if err != nil {
		return false, s.fail(fmt.Errorf("fill %s: %w", active.Path, err))
	}
	return filled+n < to, nil
}

func (s *Store) isActive(seg *Segment) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.active == seg
}

// fullestSpare may be nil. The caller holds spares.mu.
func (s *Store) fullestSpare() *spare {
	var best *spare
	for _, sp := range s.spares.kept {
		if best == nil || sp.filled > best.filled {
			best = sp
		}
	}
	return best
}

func (s *Store) haveSpare() bool {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	return len(s.spares.kept) > 0
}

// takeSpare hands out the fullest spare, opened, or a new empty one.
func (s *Store) takeSpare() (*spare, error) {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	sp := s.fullestSpare()
	if sp == nil {
		return s.newSpare()
	}
	if err := s.openSpare(sp); err != nil {
		return nil, err
	}
	for i, k := range s.spares.kept {
		if k == sp {
			s.spares.kept = append(s.spares.kept[:i], s.spares.kept[i+1:]...)
			break
		}
	}
	return sp, nil
}

func (s *Store) openSpare(sp *spare) error {
	if sp.file != nil {
		return nil
	}
	var err error
	if sp.file, err = s.FS.Open(sp.path); err != nil {
		return fmt.Errorf("open spare segment: %w", err)
	}
	return nil
}

func (s *Store) closeSpares() error {
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	var err error
	for _, sp := range s.spares.kept {
		if sp.file != nil {
			err = errors.Join(err, sp.file.Close())
		}
	}
	s.spares.kept = nil
	return err
}
