package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
)

// beginMark is the name of an empty file, <ordinal>-<first index>.begin: the
// log begins with the segment of that ordinal. Recycle moves it up before a
// file below goes. So segments below it are what a crash brought back of
// those that were recycled, and one that is not there from it on is missing.
//
// A log without one was made before there were such marks, and gets it with
// the next Recycle. Until then nobody misses a first segment.
type beginMark struct {
	mu      sync.Mutex
	ordinal uint64
	path    string // "": there is none
}

const beginSuffix = ".begin"

func segmentName(ordinal, first uint64) string { return fmt.Sprintf("%020d-%020d", ordinal, first) }

// adoptBegin takes the mark that was found.
func (s *Store) adoptBegin(found *files) {
	if b := found.begin; b != nil {
		s.begun.ordinal, s.begun.path = b.ordinal, filepath.Join(s.dir, b.path)
	}
}

// moveBegin makes the log begin with a segment; SyncDir makes it durable. It
// never moves down.
func (s *Store) moveBegin(ordinal, first uint64) error {
	b := &s.begun
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" && b.ordinal >= ordinal {
		return nil
	}
	path := filepath.Join(s.dir, segmentName(ordinal, first)+beginSuffix)
	if b.path == "" {
		file, err := s.fs.Create(path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("mark the begin of the log: %w", err)
		}
		if err == nil {
			if err := file.Close(); err != nil {
				return fmt.Errorf("mark the begin of the log: %w", err)
			}
		}
	} else if err := s.fs.Rename(b.path, path); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	b.ordinal, b.path = ordinal, path
	return nil
}
