package segment

import "time"

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
	if s.options.SyncDelay > 0 {
		time.Sleep(s.options.SyncDelay)
	}
	s.synced = s.position
	return nil
}
