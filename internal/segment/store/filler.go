package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

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
)

var zeros [fillStep]byte

// filler fills files with zeros ahead of the writer. An fdatasync of a file that grows
// has to write the file system's journal too, which on the disks we know costs half as
// much again. So files are filled off the writer's path, as far ahead as the log is busy:
// the active segment a little for an idle log, the whole next segment for one that fills
// a segment without a pause.
//
// Zeros take bandwidth of the same disk: 0.6 us a KiB, where growth costs a
// sync 30 us and 0.3 us a KiB. From writes of about 90 KiB on, growing is the
// cheaper way, and a log that makes such writes is not filled ahead. Trimmed
// files cost neither.
type filler struct {
	*Dir
	*failure
	*list
	*activity
	spares *spares
	names  *names

	quit, done chan struct{} // nil with Options.Manual
}

// start starts the goroutine that prepares. stopFiller waits for it.
func (f *filler) start() {
	if f.Options.Manual {
		return
	}
	f.wake, f.quit, f.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(f.done)
		for {
			select {
			case <-f.wake:
			case <-f.quit:
				return
			}
			if more, err := f.Prepare(); more && err == nil {
				f.kick()
			}
		}
	}()
	f.kick()
}

func (f *filler) stop() {
	if f.quit == nil {
		return
	}
	close(f.quit)
	<-f.done
	f.quit = nil
}

// Prepare makes the name of the newest segment durable, and the spare if there
// is none, or fills one step of the active segment or of the spare. An error is ENOSPC,
// or has failed the log.
func (f *filler) Prepare() (more bool, err error) {
	if err := f.failed(); err != nil {
		return false, err
	}
	if _, err := f.names.sync(); err != nil {
		return false, f.fail(err)
	}
	if more, err = f.spares.prepare(); more || err != nil {
		return more, err
	}
	if f.average.Load() >= fillBelow {
		return false, nil
	}
	ahead := f.position.Load() + max(f.recent.Load(), min(fillMin, f.Options.SegmentBytes))
	full := f.Options.SegmentBytes + footerRoom
	if more, err = f.fillActive(min(ahead, full)); more || err != nil {
		return more, err
	}
	return f.spares.fill(min(ahead-f.Options.SegmentBytes, full))
}

// fillActive brings the filled part of the active segment nearer to to. It
// has a handle of its own: the kernel reports a failed write-back once to
// each handle, and the writer's sync must not miss one.
//
// The file may belong to another segment by the time it is open. While the
// segment is the active one and spares.mu is held it cannot: somebody has to
// take it as a spare first.
func (f *filler) fillActive(to int64) (more bool, err error) {
	f.mu.RLock()
	active := f.active
	f.mu.RUnlock()
	filled := active.filled.Load()
	low := filled-f.position.Load() < min(fillMin, f.Options.SegmentBytes)/2
	if to <= filled || to-filled < fillStep && !low {
		return false, nil
	}
	file, err := f.FS.Open(active.Path)
	if err != nil {
		return false, fmt.Errorf("fill %s: %w", active.Path, err)
	}
	defer file.Close()
	f.spares.mu.Lock()
	if !f.isActive(active) {
		f.spares.mu.Unlock()
		return false, nil
	}
	filled = active.filled.Load()
	n := min(to-filled, fillStep)
	if n > 0 {
		if _, err = file.WriteAt(zeros[:n], filled); err == nil {
			active.filled.Store(filled + n)
		}
	}
	f.spares.mu.Unlock()
	if errors.Is(err, syscall.ENOSPC) {
		return false, fmt.Errorf("fill %s: %w", active.Path, err)
	}
	if err == nil {
		err = file.Datasync()
	}
	if err != nil {
		return false, f.fail(fmt.Errorf("fill %s: %w", active.Path, err))
	}
	return filled+n < to, nil
}

// activity is how busy a log is.
type activity struct {
	position atomic.Int64 // of the writer in the active segment
	recent   atomic.Int64 // bytes written since the log was last idle, at most a segment's
	average  atomic.Int64 // bytes of a write, lately
	unkicked int64        // bytes written since the last kick; the writer's own

	wake chan struct{} // nil with Options.Manual
}

func (a *activity) wrote(bytes, position, most int64) {
	a.position.Store(position)
	a.recent.Store(min(most, a.recent.Load()+bytes))
	a.average.Store((7*a.average.Load() + bytes) / 8)
	if a.unkicked += bytes; a.unkicked >= kickBytes {
		a.unkicked = 0
		a.kick()
	}
}

func (a *activity) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// shrink is called when the log has fallen idle.
func (a *activity) shrink() { a.recent.Store(0) }
