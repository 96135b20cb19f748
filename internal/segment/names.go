package segment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"strandline.dev/test/flaw"
)

// names remembers that a segment was renamed from a spare and the directory was
// not synced since. That sync commits the file system's journal, with whatever
// else is in it, so the writer leaves it to the filler. It does not wait for it
// either: a spare whose header says that it follows the newest segment is that
// segment, whatever its name is after a crash.
type names struct {
	mu   sync.Mutex // held over the sync
	owed bool
}

func (n *names) owe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed = true
}

// syncNames makes the name of the newest segment durable and reports whether it
// had to.
func (s *Store) syncNames() (synced bool, err error) {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if !s.names.owed || flaw.Is(flaw.RollForgetsTheDirectory) {
		return false, nil
	}
	if err := s.syncDir(); err != nil {
		return false, fmt.Errorf("sync the name of a segment: %w", err)
	}
	s.names.owed = false
	return true, nil
}

// follows reports whether the segment was begun by a roll: others replace the
// log or begin it.
func (h *header) follows() bool { return h.endBefore >= headerSize }

// followingSpare returns the spare that is the segment which follows the newest, if its
// new name was lost in a crash; nil if there is none. Its name is what it is to
// be, its path where it is. A recycled file still has the header of its earlier
// life, with an ordinal below those that are kept; a file of another log is none.
func (s *Store) followingSpare(found *files) (*segment, error) {
	if len(found.segments) == 0 || flaw.Is(flaw.RollForgetsTheDirectory) {
		return nil, nil
	}
	newest := found.segments[len(found.segments)-1].ordinal
	for _, info := range found.spares {
		path := filepath.Join(s.dir, info.Name)
		h, err := s.peekHeader(path)
		if err != nil {
			return nil, err
		}
		if h != nil && h.follows() && h.ordinal == newest+1 && s.options.Owner.foreign(h.owner) == nil {
			return &segment{ordinal: h.ordinal, first: h.first, path: path, size: info.Size, header: h}, nil
		}
	}
	return nil, nil
}

// peekHeader reads the header of a file that may have none: then it is nil.
func (s *Store) peekHeader(path string) (*header, error) {
	file, err := s.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open spare segment: %w", err)
	}
	defer file.Close()
	b := make([]byte, headerSize)
	if n, err := file.ReadAt(b, 0); n < headerSize && !errors.Is(err, io.EOF) && !unreadable(err) {
		return nil, fmt.Errorf("read spare segment: %w", err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, nil
	}
	return h, nil
}

// adoptBegun gives a segment the name that a crash took from it, and reports
// whether there was one. The header is written once more: after a failed sync it
// may be in the page cache only, see settle.
func (s *Store) adoptBegun(found *files) (bool, error) {
	seg, err := s.followingSpare(found)
	if err != nil || seg == nil {
		return false, err
	}
	name := filepath.Join(s.dir, segmentName(seg.ordinal, seg.first)+".seg")
	if err := s.renewHeader(seg); err != nil {
		return false, fmt.Errorf("name a segment again: %w", err)
	}
	if err := s.fs.Rename(seg.path, name); err != nil {
		return false, fmt.Errorf("name a segment again: %w", err)
	}
	return true, s.syncDir()
}

func (s *Store) renewHeader(seg *segment) error {
	file, err := s.fs.Open(seg.path)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(seg.header.encode(), 0); err == nil {
		err = file.Datasync()
	}
	return errors.Join(err, file.Close())
}
