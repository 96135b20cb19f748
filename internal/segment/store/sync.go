package store

import (
	"fmt"
	"sync/atomic"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// sync makes all frames written so far durable. Only here does the log wait for the disk on
// behalf of an append. Only the writer calls it, so at most one sync of a log runs at a time.
//
// An error means that the kernel may have dropped pages that it could not write, and will not
// report it again: a second sync could succeed without them. The caller stops the log.
func (e *newest) sync() error {
	if e.synced == e.position {
		return nil
	}
	if err := e.active.file.Datasync(); err != nil {
		return err
	}
	if e.Options.SyncDelay > 0 {
		delay(e.Options.SyncDelay)
	}
	e.noteDurable()
	return nil
}

// noteDurable records that everything written is durable. The watermark does not cover a sync
// mark at the end: its loss does no harm.
func (e *newest) noteDurable() {
	e.synced = e.position
	e.active.durable.Store(e.synced)
	e.durable = format.Watermark{
		Ordinal: e.active.Ordinal, Salt: e.active.header.Salt, Position: e.synced,
		Term: e.hard.Term, Vote: e.hard.Vote, Last: e.active.index.Next - 1,
	}
	if e.marked == e.synced && e.marked > format.HeaderSize {
		e.durable.Position -= format.FrameSize(format.HardStateSize)
	}
}

// failure is the first failed write or sync of a log, after which every call fails.
type failure struct {
	path   string // of the log
	reason atomic.Pointer[error]
}

// fail records the reason, unless there is one, and returns the recorded one.
func (f *failure) fail(err error) error {
	err = fmt.Errorf("log in %s stopped: %w", f.path, err)
	f.reason.CompareAndSwap(nil, &err)
	return f.failed()
}

func (f *failure) failed() error {
	if reason := f.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

func (f *failure) close() {
	err := segment.ErrClosed
	f.reason.CompareAndSwap(nil, &err)
}
