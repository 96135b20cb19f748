package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

const (
	// fillMin is how many bytes are filled ahead in the active segment and in the spare of an idle
	// log. A thousand idle logs occupy half a GiB.
	fillMin = 256 << 10
	// fillStep is how many bytes are filled in one step. It bounds the time for which a write to the
	// file has to wait.
	fillStep = 1 << 20
	// kickBytes is how many bytes are written between two wake-ups of the filler. It is small beside
	// fillMin, and single appends do not wake another goroutine.
	kickBytes = 32 << 10
	// fillBelow is the average write size below which filling is worthwhile.
	fillBelow = 64 << 10
	// footerRoom is how many bytes are filled behind SegmentBytes.
	footerRoom = 64 << 10
)

var zeros [fillStep]byte

// filler fills files with zeros ahead of the writer. An fdatasync of a file that grows must also
// write the file system's journal, which takes half as long again on the disks measured. So files
// are filled outside the writer's path, as far ahead as the log is busy: the active segment a
// little for an idle log, the whole next segment for one that fills a segment without a pause.
//
// Writing zeros takes bandwidth of the same disk: 0.6 us per KiB, whereas growing costs 30 us per
// sync and 0.3 us per KiB. For writes of about 90 KiB or more growing is cheaper, so a log with
// such writes is not filled ahead. Trimmed files cost neither.
type filler struct {
	*Dir
	*failure
	*list
	*activity
	spares *spares
	names  *names

	quit, done chan struct{} // nil with Options.Manual
}

// start starts the goroutine that calls Prepare. stop waits for it.
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

// Prepare makes the name of the newest segment durable. Then it creates the spare if there is
// none, or fills one step of the active segment or of the spare. Its error is ENOSPC, or has
// stopped the log.
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

// fillActive extends the filled part of the active segment towards to. It uses a handle of its
// own: the kernel reports a failed write-back once to each handle, and the writer's sync must not
// miss one.
//
// The file may belong to another segment by the time it is open. It cannot while the segment is
// active and spares.mu is held: it would have to become a spare first.
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

// activity measures how busy a log is.
type activity struct {
	position atomic.Int64 // of the writer in the active segment
	recent   atomic.Int64 // bytes written since the log was last idle, at most SegmentBytes
	average  atomic.Int64 // moving average of the size of a write
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

// shrink is called when the log becomes idle.
func (a *activity) shrink() { a.recent.Store(0) }
