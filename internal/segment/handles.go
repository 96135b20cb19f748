package segment

import (
	"errors"
	"io"
	"sync"
)

// handles are open for as long as the log is, so that a process which has run
// out of descriptors can go on writing: the directory, which is synced after
// renames, and the watermark. The active segment and the next spare are open
// anyway.
type handles struct {
	mu        sync.Mutex
	directory Directory
	watermark File // the writer's own
}

// Directory is an open directory.
type Directory interface {
	// Sync makes creations, renames and removals in it durable.
	Sync() error
	io.Closer
}

// holdHandles opens what a log that was recovered keeps open.
func (s *Store) holdHandles() error {
	if err := s.holdDirectory(); err != nil {
		return err
	}
	if !s.witness.known {
		return nil // it is opened when it has been made
	}
	file, err := s.fs.Open(s.witnessPath())
	if err != nil {
		return err
	}
	return s.holdWatermark(file)
}

// holdDirectory opens the directory of the log. Without it each sync opens it.
func (s *Store) holdDirectory() error {
	d, err := s.fs.OpenDir(s.dir)
	if err != nil {
		return err
	}
	s.handles.mu.Lock()
	defer s.handles.mu.Unlock()
	s.handles.directory = d
	return nil
}

// syncDir makes creations, renames and removals in the log's directory durable.
func (s *Store) syncDir() error {
	s.handles.mu.Lock()
	defer s.handles.mu.Unlock()
	if s.handles.directory == nil {
		return s.fs.SyncDir(s.dir)
	}
	return s.handles.directory.Sync()
}

// holdWatermark keeps file open, nil: none, and closes the one that was.
func (s *Store) holdWatermark(file File) (err error) {
	if s.handles.watermark != nil {
		err = s.handles.watermark.Close()
	}
	s.handles.watermark = file
	return err
}

func (s *Store) closeHandles() error {
	err := s.holdWatermark(nil)
	s.handles.mu.Lock()
	defer s.handles.mu.Unlock()
	if s.handles.directory != nil {
		err = errors.Join(err, s.handles.directory.Close())
		s.handles.directory = nil
	}
	return err
}
