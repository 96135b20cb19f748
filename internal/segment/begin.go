package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"strandline.dev/internal/record"
)

// beginMark is the file <ordinal>-<first index>.begin: the log begins with the
// segment of that ordinal. Recycle renames it before a file below goes. So
// segments below it are what a crash brought back of those that were recycled,
// and one that is not there from it on is missing.
//
// Its content never changes: the log that it belongs to. The mark of another log
// must not make this one begin elsewhere.
//
//	 0  u64  magic  "STRANDBG"
//	 8  owner       see Owner
//	56  u32  CRC    of bytes [0, 56)
//
// A log that has lost its mark gets another with the next Recycle. Until then a
// missing first segment goes unnoticed here.
type beginMark struct {
	mu      sync.Mutex
	ordinal uint64
	path    string // "": there is none
}

const (
	beginSuffix = ".begin"
	beginMagic  = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'B'<<48 | 'G'<<56
	beginFixed  = 8 + ownerSize
)

func encodeBegin(owner Owner) []byte {
	b := make([]byte, beginFixed, beginFixed+4)
	binary.LittleEndian.PutUint64(b, beginMagic)
	owner.encode(b[8:])
	return binary.LittleEndian.AppendUint32(b, record.Checksum(b))
}

// checkBegin reports what is wrong with the content of a mark.
func (o Owner) checkBegin(b []byte) error {
	if len(b) != beginFixed+4 || record.Checksum(b[:beginFixed]) != binary.LittleEndian.Uint32(b[beginFixed:]) ||
		binary.LittleEndian.Uint64(b) != beginMagic {
		return errors.New("it does not match its checksum")
	}
	return o.foreign(parseOwner(b[8:]))
}

// chooseBegin takes the highest of the marks of this log: a crash may bring back
// the one before.
func (s *Store) chooseBegin(found *files) error {
	found.begin = nil
	for _, seg := range found.begins {
		b, err := s.fs.ReadFile(seg.path)
		if err != nil && !unreadable(err) {
			return fmt.Errorf("read the mark of the begin: %w", err)
		}
		if err == nil {
			err = s.options.Owner.checkBegin(b)
		}
		if err != nil {
			found.strays = append(found.strays, stray{seg.path, err})
			continue
		}
		if found.begin == nil || found.begin.ordinal < seg.ordinal {
			found.begin, seg = seg, found.begin
		}
		if seg != nil {
			found.temporary = append(found.temporary, filepath.Base(seg.path))
		}
	}
	return nil
}

func segmentName(ordinal, first uint64) string { return fmt.Sprintf("%020d-%020d", ordinal, first) }

// adoptBegin takes the mark that was found.
func (s *Store) adoptBegin(found *files) {
	if b := found.begin; b != nil {
		s.begun.ordinal, s.begun.path = b.ordinal, b.path
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
		if err := WriteFileDurably(s.fs, path, encodeBegin(s.options.Owner)); err != nil {
			return fmt.Errorf("mark the begin of the log: %w", err)
		}
	} else if err := s.fs.Rename(b.path, path); err != nil {
		return fmt.Errorf("mark the begin of the log: %w", err)
	}
	b.ordinal, b.path = ordinal, path
	return nil
}
