package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"strandline.dev/internal/record"
)

const (
	snapshotHeaderSize = 48 + ownerSize
	snapshotMagic      = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'S'<<48 | 'N'<<56
	snapshotVersion    = 2
	snapshotsKept      = 2
)

// encodeSnapshot makes the content of a snapshot file. All integers are
// little-endian.
//
//	 0  u64  magic       "STRANDSN"
//	 8  u32  version
//	12  u32  data CRC
//	16  u64  index       the data is the state after this entry
//	24  u64  term        of that entry
//	32  u64  length      of the data
//	40  owner            see Owner
//	88  u32  reserved    0
//	92  u32  header CRC  of bytes [0, 92)
//	96  data
//
// It gets its name when it is durable, so a bad one is not what a crash left
// behind. There are at least two: if the newer is damaged the older serves as
// well, as long as the log reaches back to it.
func encodeSnapshot(owner Owner, index, term uint64, data []byte) []byte {
	b := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(data))
	binary.LittleEndian.PutUint64(b, snapshotMagic)
	binary.LittleEndian.PutUint32(b[8:], snapshotVersion)
	binary.LittleEndian.PutUint32(b[12:], record.Checksum(data))
	binary.LittleEndian.PutUint64(b[16:], index)
	binary.LittleEndian.PutUint64(b[24:], term)
	binary.LittleEndian.PutUint64(b[32:], uint64(len(data)))
	owner.encode(b[40:])
	binary.LittleEndian.PutUint32(b[snapshotHeaderSize-4:], record.Checksum(b[:snapshotHeaderSize-4]))
	return append(b, data...)
}

// parseSnapshot reads the content of the snapshot file of owner and index; data
// aliases b.
func parseSnapshot(b []byte, owner Owner, index uint64) (term uint64, data []byte, err error) {
	if len(b) < snapshotHeaderSize {
		return 0, nil, fmt.Errorf("snapshot header cut short at %d bytes", len(b))
	}
	const fixed = snapshotHeaderSize - 4
	if crc, sum := binary.LittleEndian.Uint32(b[fixed:]), record.Checksum(b[:fixed]); crc != sum {
		return 0, nil, fmt.Errorf("snapshot header has CRC %08x, its bytes %08x", crc, sum)
	}
	if m := binary.LittleEndian.Uint64(b); m != snapshotMagic {
		return 0, nil, fmt.Errorf("no snapshot: magic %016x", m)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != snapshotVersion {
		return 0, nil, fmt.Errorf("snapshot version %d, this program knows %d", v, snapshotVersion)
	}
	if err := owner.foreign(parseOwner(b[40:])); err != nil {
		return 0, nil, err
	}
	if found := binary.LittleEndian.Uint64(b[16:]); found != index {
		return 0, nil, fmt.Errorf("snapshot of entry %d", found)
	}
	data = b[snapshotHeaderSize:]
	if length := binary.LittleEndian.Uint64(b[32:]); length != uint64(len(data)) {
		return 0, nil, fmt.Errorf("snapshot of %d bytes, its header tells of %d", len(data), length)
	}
	if crc, sum := binary.LittleEndian.Uint32(b[12:]), record.Checksum(data); crc != sum {
		return 0, nil, fmt.Errorf("snapshot data has CRC %08x, its bytes %08x", crc, sum)
	}
	return binary.LittleEndian.Uint64(b[24:]), data, nil
}

func (s *Store) snapshotPath(index uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d.snap", index))
}

// SaveSnapshot does not touch the segments: an error leaves the log as it was
// and does not stop it.
func (s *Store) SaveSnapshot(index, term uint64, data []byte) error {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	return s.saveSnapshot(index, term, data)
}

func (s *Store) saveSnapshot(index, term uint64, data []byte) error {
	if err := s.failed(); err != nil {
		return err
	}
	if s.beginsAbove(index) {
		return nil
	}
	if err := WriteFileDurably(s.fs, s.snapshotPath(index), encodeSnapshot(s.options.Owner, index, term, data)); err != nil {
		return err
	}
	s.mu.Lock()
	if at, found := slices.BinarySearch(s.snapshots, index); !found {
		s.snapshots = slices.Insert(s.snapshots, at, index)
	}
	s.mu.Unlock()
	return s.dropSnapshots()
}

// beginsAbove reports whether nobody can go on from index, since the log begins
// further up: a snapshot that was taken before a Reset may be saved after it.
func (s *Store) beginsAbove(index uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.live) > 0 && index+1 < s.live[0].first
}

// dropSnapshots removes those that belong to no segment any more, except the
// newest.
func (s *Store) dropSnapshots() error {
	s.mu.Lock()
	first := uint64(0)
	if len(s.live) > 0 {
		first = s.live[0].first
	}
	extra := 0
	for extra < len(s.snapshots)-snapshotsKept && s.snapshots[extra]+1 < first {
		extra++
	}
	drop := slices.Clone(s.snapshots[:extra])
	s.snapshots = slices.Delete(s.snapshots, 0, extra)
	s.mu.Unlock()
	for _, old := range drop {
		if err := s.fs.Remove(s.snapshotPath(old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

func (s *Store) LoadBase() (index, term uint64, data []byte, err error) {
	if err := s.failed(); err != nil {
		return 0, 0, nil, err
	}
	for {
		s.mu.RLock()
		base := s.live[0].first - 1
		found := s.hasSnapshot(base)
		s.mu.RUnlock()
		if !found {
			return 0, 0, nil, ErrNoSnapshot
		}
		term, data, err := s.readSnapshot(base)
		if errors.Is(err, fs.ErrNotExist) && s.FirstIndex()-1 != base {
			continue // recycled between the two steps
		}
		return base, term, data, err
	}
}

func (s *Store) LoadSnapshot() (index, term uint64, data []byte, err error) {
	if err := s.failed(); err != nil {
		return 0, 0, nil, err
	}
	s.mu.RLock()
	// From one below the first entry the log does not go on.
	reached, _ := slices.BinarySearch(s.snapshots, s.live[0].first-1)
	snapshots := slices.Clone(s.snapshots[reached:])
	s.mu.RUnlock()
	return s.newestSnapshot(snapshots)
}

// newestSnapshot reads the last valid one of snapshots. One that is not valid
// stays where it is, for people to look at.
func (s *Store) newestSnapshot(snapshots []uint64) (index, term uint64, data []byte, err error) {
	for _, candidate := range slices.Backward(snapshots) {
		term, data, err := s.readSnapshot(candidate)
		switch {
		case err == nil:
			return candidate, term, data, nil
		case errors.As(err, new(*CorruptError)):
			s.options.Logger.Error("snapshot is corrupt, trying the one before", "error", err)
		case !errors.Is(err, fs.ErrNotExist):
			return 0, 0, nil, err
		}
	}
	return 0, 0, nil, ErrNoSnapshot
}

// readSnapshot answers a *CorruptError for one that is not valid, or that the
// disk cannot read.
func (s *Store) readSnapshot(index uint64) (term uint64, data []byte, err error) {
	term, data, _, err = s.readSnapshotAt(s.snapshotPath(index), index)
	return term, data, err
}

// readSnapshotAt reads the snapshot of an entry in the file at path, and returns
// the size of the file too.
func (s *Store) readSnapshotAt(path string, index uint64) (term uint64, data []byte, size int64, err error) {
	b, err := s.fs.ReadFile(path)
	switch {
	case unreadable(err):
	case err != nil:
		return 0, nil, 0, fmt.Errorf("read snapshot: %w", err)
	default:
		term, data, err = parseSnapshot(b, s.options.Owner, index)
	}
	if err != nil {
		return 0, nil, int64(len(b)), &CorruptError{File: path, FirstIndex: 1, LastIndex: index, Detail: err.Error()}
	}
	return term, data, int64(len(b)), nil
}
