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
func (s *Store) sync() error {
	if s.synced == s.position {
		return nil
	}
	if err := s.active.file.Datasync(); err != nil {
		return err
	}
	if s.Options.SyncDelay > 0 {
		delay(s.Options.SyncDelay)
	}
	s.noteDurable()
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
func (s *Store) noteDurable() {
	s.synced = s.position
	s.active.durable.Store(s.synced)
	s.durable = format.Watermark{
		Ordinal: s.active.Ordinal, Salt: s.active.header.Salt, Position: s.synced,
		Term: s.hard.Term, Vote: s.hard.Vote, Last: s.active.index.Next - 1,
	}
	if s.marked == s.synced && s.marked > format.HeaderSize {
		s.durable.Position -= format.FrameSize(format.HardStateSize)
	}
}

func (s *Store) writeWatermarkIfDue() error {
	if !s.watermark.due(&s.durable) {
		return nil
	}
	return s.watermark.Write(s.durable)
}
