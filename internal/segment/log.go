// Package segment defines the log of one replica: entries (opaque bytes with an index, a term and
// a first offset), the hard state, snapshots, and the errors. It knows nothing of Raft's rules,
// the network or the disk.
//
// Package store keeps such a log in segment files, package memory in memory. Package format
// encodes the files; package repair rebuilds damaged ones.
package segment

import (
	"errors"
	"fmt"
	"io"

	"strandline.dev/internal/record"
)

// Log is one replica's log: a run of entries without gaps, the newest hard state, and the newest
// snapshots. Package store keeps it on disk, package memory in memory.
//
// Write, Mark, Reset and Close must be called by one goroutine at a time. So must SaveSnapshot,
// Trim and Summarize, by the same goroutine or another. All other methods may be called
// concurrently with these and with each other. Entries are visible to all goroutines when Write
// returns.
type Log interface {
	// Write appends everything in ws, in order. If one of ws has MustSync set, it returns once
	// everything is durable. With ErrNotNext nothing has changed. After any other error it is
	// undefined how much of ws is in the log, and every later call fails with the same error.
	Write(ws []Write) (Result, error)

	// Mark writes a sync mark, which records that everything in front of it is durable: damaged
	// bytes in front of the mark are corrupt, not torn. It is called when the log becomes idle, and
	// does not wait for the disk.
	Mark() error

	// Rest frees memory and disk space that is kept for a log while it is written to. It is called
	// when nothing has been written for a moment, before Mark or without it.
	Rest()

	// FirstIndex returns the index of the oldest entry kept, LastIndex that of the newest. In an
	// empty log LastIndex is FirstIndex-1.
	FirstIndex() uint64
	LastIndex() uint64

	// Term returns the term of an entry in [FirstIndex-1, LastIndex]. Below it the error is
	// ErrTrimmed, above it ErrUnavailable.
	Term(index uint64) (uint64, error)

	// TermInMemory is like Term but does not access the disk: it returns ErrNotInMemory where Term
	// would.
	TermInMemory(index uint64) (uint64, error)

	// StartOffset returns the first offset of the oldest entry kept.
	StartOffset() record.Offset

	// Entries returns entries of [lo, hi) from lo on: at least one, and then as many as fit in
	// maxBytes of payload. They may be kept; their payloads must not be changed.
	Entries(lo, hi uint64, maxBytes int) ([]Entry, error)

	// NewCursor returns a cursor that starts at the entry that holds from, or at the first entry
	// behind it. The error is ErrTrimmed if from is below StartOffset.
	NewCursor(from record.Offset) (Cursor, error)

	// OffsetAtTime returns the first offset of the first entry whose time is unixMs or later, or the
	// end of the log if there is none.
	OffsetAtTime(unixMs int64) (record.Offset, error)

	// OffsetAtSize returns the smallest first offset of an entry such that the entries from it to
	// end hold at most bytes of payload. It returns end if even the last entry is larger.
	OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error)

	// BytesFrom returns, for each of the offsets, the total payload size in bytes of the entries
	// that begin at it or later.
	BytesFrom(from ...record.Offset) ([]int64, error)

	// LookUpKeys reports whether the complete segment that holds the offset from may have a record
	// that satisfies q. It may read a small file.
	LookUpKeys(from record.Offset, q *KeyQuery) KeyAnswer

	// Summarize builds the key summary of one complete segment that has none, and reports whether
	// there may be more of them. It calls rest from time to time, which may pause; if rest returns
	// false, Summarize stops. It needs SummaryRoom bytes of memory.
	Summarize(rest func() bool) (more bool, err error)

	// Bytes returns the space that the log occupies, in bytes.
	Bytes() int64

	// Trim removes entries below the index below, in whole segments, up to a segment for whose start
	// there is a durable and valid snapshot. One call does a bounded amount of work and reports
	// whether there is more.
	Trim(below uint64) (more bool, err error)

	// SaveSnapshot stores data as the state after the entry (index, term). The entry must be durable
	// before the call; the snapshot is durable when SaveSnapshot returns. The two newest snapshots
	// are kept, and all that belong to the start of a segment of the log. A snapshot from which the
	// log no longer continues is not kept.
	SaveSnapshot(index, term uint64, data []byte) error

	// LoadSnapshot returns the newest valid snapshot. ErrNoSnapshot means that there is none and
	// that the log has all its entries since its Bootstrap.
	LoadSnapshot() (index, term uint64, data []byte, err error)

	// Snapshots returns, in ascending order, the indexes of the snapshots from which on the log has
	// all entries. ReadSnapshot reads one. Its error is fs.ErrNotExist if Trim has removed it
	// meanwhile, and a *CorruptError if it is damaged.
	Snapshots() []uint64
	ReadSnapshot(index uint64) (term uint64, data []byte, err error)

	// LoadBase returns the snapshot of the state after the entry before FirstIndex. A follower that
	// has no earlier entries needs it to receive all that are kept. The error is ErrNoSnapshot if
	// there is none, and a *CorruptError if it is damaged; the next Trim moves the beginning of the
	// log to another snapshot.
	LoadBase() (index, term uint64, data []byte, err error)

	// Reset replaces the whole log by a snapshot. The next entry has the index index+1 and the first
	// offset start. A crash leaves either the old log or the new one.
	Reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error

	// HardState returns the newest hard state.
	HardState() HardState

	// ConfState returns the ConfState of the Bootstrap.
	ConfState() []byte

	// Prepare does one small step of work that makes later writes cheaper, and reports whether there
	// is more to do. It may be called concurrently with all other methods.
	Prepare() (more bool, err error)

	// Close closes the log. Every later call returns ErrClosed.
	Close() error
}

// Cursor reads entries in the order of their indexes. It must be used by one goroutine at a time.
// It holds a reference to its segment, whose file remains while the cursor reads.
type Cursor interface {
	// Next returns the next entries whose first offset is below limit: at least one, and about
	// maxBytes of them with one read. It returns no entries and no error if there is none below
	// limit yet, and ErrTrimmed if the log was trimmed beyond the cursor. The entries alias one
	// buffer, which the caller owns from then on.
	Next(limit record.Offset, maxBytes int) ([]Entry, error)
	// Lend provides memory that the next call of Next may read into instead of allocating, if it is
	// large enough. The entries alias it then.
	Lend(memory []byte)
	// Close releases the segment.
	Close()
}

// Entry is a Raft entry as a log stores it.
type Entry struct {
	Index, Term uint64
	Type        uint8         // Raft's entry type; opaque here
	First       record.Offset // of its first record, or of the next record if it has none; never decreasing
	Count       uint32        // records
	Time        int64         // leader's time, Unix milliseconds
	CRC         uint32        // record.Checksum(Payload)
	Payload     []byte        // at most record.MaxEntryBytes
}

// End returns the offset behind the entry's last record.
func (e *Entry) End() record.Offset { return e.First + record.Offset(e.Count) }

// HardState is the state that Raft requires to be durable. The zero value is that of a replica
// that has not voted yet.
type HardState struct{ Term, Vote, Commit uint64 }

// Bootstrap is the state that a new log starts from: the state after the entry (Index, Term),
// which itself is not in the log.
type Bootstrap struct {
	Index, Term uint64
	Start       record.Offset // offset of the first record to be appended
	HardState   HardState
	ConfState   []byte // at most 3916 bytes
	Snapshot    []byte
}

// Write is one unit to append. The indexes of Entries are consecutive. The first is at most
// LastIndex+1; it truncates the log from its index on. HardState, if not nil, takes effect after
// the entries.
type Write struct {
	Entries   []Entry
	HardState *HardState
	MustSync  bool
	// Written, if not nil, is called when the bytes are written, before they
	// are synced. It must not block.
	Written func()
}

// CallWritten calls the Written function of each of ws that has one.
func CallWritten(ws []Write) {
	for i := range ws {
		if ws[i].Written != nil {
			ws[i].Written()
		}
	}
}

// CheckWrites returns an error that wraps ErrNotNext if the entries in ws cannot be written to a
// log of the entries [first, next).
func CheckWrites(ws []Write, first, next uint64) error {
	for i := range ws {
		for k := range ws[i].Entries {
			f := &ws[i].Entries[k]
			if k > 0 && f.Index != next || f.Index < first || f.Index > next {
				return fmt.Errorf("entry %d does not follow a log of [%d, %d): %w", f.Index, first, next, ErrNotNext)
			}
			if len(f.Payload) > record.MaxEntryBytes {
				return fmt.Errorf("entry %d has %d bytes, the limit is %d: %w", f.Index, len(f.Payload), record.MaxEntryBytes, ErrNotNext)
			}
			next = f.Index + 1
		}
	}
	return nil
}

// Result reports the side effects of a Write.
type Result struct {
	// Rolled holds the first indexes of the segments that the write began. Everything below each of
	// them is durable. Trim can remove entries up to one of them once a snapshot for it is saved.
	Rolled []uint64
}

var (
	// ErrTrimmed is returned for entries below the first.
	ErrTrimmed = errors.New("trimmed")
	// ErrUnavailable is returned for entries above the last.
	ErrUnavailable = errors.New("not in the log")

	// ErrNotInMemory is returned if the answer would have to be read from disk.
	ErrNotInMemory = errors.New("not in memory")
	// ErrNotNext is returned for a write that the log cannot take. It indicates a bug in the caller.
	ErrNotNext = errors.New("not a write for this log")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("log is closed")
	// ErrNoLog is returned when opening a directory without segments: the log was never created, or
	// its creation did not finish and nothing is lost.
	ErrNoLog = errors.New("no log there")
	// ErrNoSnapshot is returned by LoadSnapshot if there is no valid snapshot.
	ErrNoSnapshot = errors.New("no valid snapshot")

	// ErrNotComplete is returned by repair.BeginOnline for damage that cannot be repaired while the
	// log is open: in a segment without valid entries, or in another file.
	ErrNotComplete = errors.New("not a complete segment")
	// ErrNotCommitted is returned by repair.BeginOnline if not all entries of the segment are known
	// to be committed yet, or if it is still written to. The next write begins another segment then.
	ErrNotCommitted = errors.New("the segment has entries that are not known to be committed")
)

// StoredCursor is a Cursor of a log whose batches lie in files exactly as they were sent.
type StoredCursor interface {
	Cursor
	// Verified reports whether the next entries have been read before and matched their checksums,
	// so that NextStored can succeed.
	Verified() bool
	// NextStored is like Next for callers that let the kernel send batches from the file. It returns
	// only batches that have been verified since the log was opened, in large runs. Otherwise, or if
	// anything is unusual, it returns false and the cursor does not move.
	NextStored(limit record.Offset, maxBytes int) (Stored, bool)
}

// Stored is a run of committed batches as they lie in a file.
type Stored struct {
	File    io.ReaderAt
	Batches []StoredBatch
	// Release ends the use of the file. The bytes of Batches are never overwritten, since a socket
	// may refer to them long after that.
	Release func()
	// Distrust is called if the bytes could not be sent. Everything in the file is verified again
	// when it is next read.
	Distrust func()
}

// StoredBatch is the place of one batch.
type StoredBatch struct {
	Position int64
	Size     int
	End      record.Offset // behind its last record
}

// CorruptError reports stored bytes that do not match their checksum, or a file that is missing.
// Such bytes are never served and never truncated; the file stays as it was found.
type CorruptError struct {
	File       string // path; the name of a missing file ends in * if its first index is not known
	Position   int64  // byte in File at which the damage shows
	FirstIndex uint64 // entries [FirstIndex, LastIndex] are damaged, or may be
	LastIndex  uint64 // 0: no entries are
	Detail     string
	// Forged is set if the entry FirstIndex matches all checksums but is not what was appended.
	Forged bool
	// Renew is set if entries from other replicas cannot repair the log, see
	// repair.ErrNotRepairable.
	Renew bool
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%s is corrupt at byte %d", e.File, e.Position)
	switch {
	case e.LastIndex == 0:
	case e.FirstIndex == e.LastIndex:
		text += fmt.Sprintf(", entry %d is damaged", e.FirstIndex)
	default:
		text += fmt.Sprintf(", entries %d to %d may be damaged", e.FirstIndex, e.LastIndex)
	}
	advice := "another replica can supply the lost entries; without one, restore the file from a copy"
	if e.Renew {
		advice = "this replica may have forgotten its vote and has to be replaced by a new one; without other replicas, restore the file from a copy"
	}
	return fmt.Sprintf("%s: %s (%s)", text, e.Detail, advice)
}
