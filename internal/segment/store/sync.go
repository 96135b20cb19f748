package store

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"strandline.dev/internal/segment/format"
)

// sync makes all frames written so far durable. It is the only place where
// the log waits for the disk on behalf of an append, and it is called by the
// writer alone, so at most one sync of a log is under way.
//
// An error means that the kernel may have dropped what it could not write and
// will not say so again: syncing once more would lie. The caller fails the log.
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

// delay waits as a slow disk would: in the kernel, where the runtime knows no
// more of it than of an fdatasync. time.Sleep would also round up to the next
// millisecond on an idle machine.
func delay(d time.Duration) {
	rest := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&rest, &rest), unix.EINTR) {
	}
}

// noteDurable records that everything written is durable. A sync mark at the end
// is left out of the watermark: nobody misses one.
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
