package segment

import (
	"errors"
	"fmt"

	"strandline.dev/internal/record"
)

// Log is one replica's log: a run of entries without gaps, the newest hard
// state, and the newest snapshots. Store keeps it on disk, Memory in memory.
//
// One goroutine at a time calls Write, Mark, Reset and Close: the writer. One
// at a time, the same or another, calls SaveSnapshot, Trim and Summarize. Everything
// else may be called by any number of others beside them. What Write took is
// visible to all when Write returns.
type Log interface {
	// Write appends everything in ws, in order, and returns when it is
	// durable, if one of ws asks for it with MustSync. ErrNotNext refuses ws
	// and changes nothing. Any other error leaves open what of ws is in the
	// log, and every later call fails with it.
	Write(ws []Write) (Result, error)

	// Mark notes that everything durable so far is: bytes in front of the
	// mark that do not match their checksum are corrupt, not torn. It is
	// called when the log has fallen idle and does not wait for the disk.
	Mark() error

	// FirstIndex is the index of the oldest entry kept, LastIndex of the
	// newest. An empty log has LastIndex = FirstIndex-1.
	FirstIndex() uint64
	LastIndex() uint64

	// Term returns the term of an entry in [FirstIndex-1, LastIndex]. Below
	// it answers ErrTrimmed, above ErrUnavailable.
	Term(index uint64) (uint64, error)

	// TermInMemory is Term that does not touch the disk: it answers
	// ErrNotInMemory where Term would.
	TermInMemory(index uint64) (uint64, error)

	// StartOffset is the first offset of the oldest entry kept.
	StartOffset() record.Offset

	// Entries reads the entries [lo, hi), at least one and then as many as
	// fit in maxBytes of payload. The frames alias memory of their own.
	Entries(lo, hi uint64, maxBytes int) ([]Entry, error)

	// NewCursor starts reading at the entry that holds from, or the first
	// entry behind it. ErrTrimmed if from is below StartOffset.
	NewCursor(from record.Offset) (Cursor, error)

	// OffsetAtTime returns the offset of the first entry whose time is unixMs
	// or later; the end of the log if there is none.
	OffsetAtTime(unixMs int64) (record.Offset, error)

	// OffsetAtSize returns the smallest first offset of an entry such that
	// the entries from it to end hold at most bytes of payload; end if even
	// the last entry is larger.
	OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error)

	// BytesFrom returns how many bytes of payload the entries have that begin at from or
	// later, for each of the offsets.
	BytesFrom(from ...record.Offset) ([]int64, error)

	// LookUpKeys says of the sealed segment that holds the offset whether it lacks what a query
	// wants. It may read a small file.
	LookUpKeys(from record.Offset, q *KeyQuery) KeyAnswer

	// Summarize makes the key summary of one sealed segment that has none, and reports
	// whether there may be more of them. It calls rest now and then, to pause, and gives up
	// where that returns false. It takes SummaryRoom of memory.
	Summarize(rest func() bool) (more bool, err error)

	// Bytes is the space the log occupies.
	Bytes() int64

	// Trim drops entries below the index below, in steps of whole
	// segments, up to one whose start has a durable and valid snapshot. One
	// call does a bounded amount of work and reports whether there is more.
	Trim(below uint64) (more bool, err error)

	// SaveSnapshot keeps data as the state after the entry (index, term). It
	// is durable when it returns; the entry has to be before. Kept are the two
	// newest, and all that belong to the start of a segment which is still
	// there. One from which the log does not continue any more is not kept.
	SaveSnapshot(index, term uint64, data []byte) error

	// LoadSnapshot returns the newest valid snapshot. ErrNoSnapshot: there is none, and
	// the log has all its entries since its Bootstrap.
	LoadSnapshot() (index, term uint64, data []byte, err error)

	// Snapshots returns the indexes, rising, of the snapshots from which on all entries are in
	// the log. ReadSnapshot reads one; its error, of one that a Trim has dropped meanwhile, is
	// fs.ErrNotExist, and of a damaged one a *CorruptError.
	Snapshots() []uint64
	ReadSnapshot(index uint64) (term uint64, data []byte, err error)

	// LoadBase returns the snapshot that belongs to the entry before
	// FirstIndex: what somebody needs who wants all the entries that are kept,
	// and has none before them. ErrNoSnapshot if there is none, a *CorruptError
	// if it is damaged; the next Trim begins the log at another.
	LoadBase() (index, term uint64, data []byte, err error)

	// Reset replaces the whole log by a snapshot: the next entry is index+1,
	// its first offset start. A crash leaves either the old log or the new.
	Reset(index, term uint64, start record.Offset, hs HardState, snapshot []byte) error

	HardState() HardState

	// ConfState is that of the Bootstrap.
	ConfState() []byte

	// Prepare does one small step of work that makes later writes cheaper
	// and reports whether there is more to do. It may run beside all others.
	Prepare() (more bool, err error)

	Close() error
}

// Cursor reads entries in order of their index. It is for one goroutine. It
// holds a reference to its segment, so the bytes stay while it reads.
type Cursor interface {
	// Next returns the next entries whose first offset is below limit, about
	// maxBytes of them with one read, at least one. Nothing and no error mean
	// that there is none below limit yet. ErrTrimmed: the log was trimmed
	// beyond the cursor. The entries alias one buffer, which is the caller's
	// from then on.
	Next(limit record.Offset, maxBytes int) ([]Entry, error)
	// Lend gives memory that the next call of Next may read into, if it is
	// large enough, instead of allocating: the entries alias it then.
	Lend(memory []byte)
	Close()
}

// Entry is one entry of Raft as a log stores it.
type Entry struct {
	Index, Term uint64
	Type        uint8         // Raft's entry type; opaque here
	First       record.Offset // of its first record; without records: the offset the next record will have. Never decreasing
	Count       uint32        // records
	Time        int64         // leader's time, unix ms
	CRC         uint32        // record.Checksum(Payload)
	Payload     []byte        // at most record.MaxEntryBytes
}

// End is the offset behind the entry's last record.
func (e *Entry) End() record.Offset { return e.First + record.Offset(e.Count) }

// HardState is what Raft must not forget. The zero value is that of a replica
// that has not voted yet.
type HardState struct{ Term, Vote, Commit uint64 }

// Bootstrap is the state a new log starts from: the state after the entry
// (Index, Term), which itself is not in the log.
type Bootstrap struct {
	Index, Term uint64
	Start       record.Offset // of the first record to come
	HardState   HardState
	ConfState   []byte // at most 3916 bytes
	Snapshot    []byte
}

// Write is one thing to append. The indexes of Entries are consecutive. The
// first is at most LastIndex+1; it truncates the log from its index on.
// HardState, if any, counts once the frames are there.
type Write struct {
	Entries   []Entry
	HardState *HardState
	MustSync  bool
	// Written, if not nil, is called when the bytes are written, before they
	// are synced. It must not block.
	Written func()
}

// CallWritten calls Written of each.
func CallWritten(ws []Write) {
	for i := range ws {
		if ws[i].Written != nil {
			ws[i].Written()
		}
	}
}

// CheckWrites refuses ws as a whole if its frames do not follow a log of the entries
// [first, next).
func CheckWrites(ws []Write, first, next uint64) error {
	for i := range ws {
		for k := range ws[i].Entries {
			f := &ws[i].Entries[k]
			if k > 0 && f.Index != next || f.Index < first || f.Index > next {
				return fmt.Errorf("entry %d does not follow a log of [%d, %d): %w", f.Index, first, next, ErrNotNext)
			}
			if len(f.Payload) > record.MaxEntryBytes {
				return fmt.Errorf("entry %d has %d bytes, the largest has %d: %w", f.Index, len(f.Payload), record.MaxEntryBytes, ErrNotNext)
			}
			next = f.Index + 1
		}
	}
	return nil
}

// Result is what a Write did besides writing.
type Result struct {
	// Rolled are the first indexes of the segments begun by the write.
	// Everything below is durable. Saving a snapshot for each lets Trim go
	// on.
	Rolled []uint64
}

var (
	// ErrTrimmed answers for entries below the first.
	ErrTrimmed = errors.New("trimmed")
	// ErrUnavailable answers for entries above the last.
	ErrUnavailable = errors.New("not in the log")

	// ErrNotInMemory answers for what would have to be read from disk.
	ErrNotInMemory = errors.New("not in memory")
	// ErrNotNext refuses a write that no log of this kind could take: a bug of
	// the caller.
	ErrNotNext = errors.New("not a write for this log")
	// ErrClosed answers everything after Close.
	ErrClosed = errors.New("log is closed")
	// ErrNoLog is Open's answer for a directory without segments: the log was
	// never created, or its creation did not finish and nothing is lost.
	ErrNoLog = errors.New("no log there")
	// ErrNoSnapshot is LoadSnapshot's answer if there is no valid one.
	ErrNoSnapshot = errors.New("no valid snapshot")

	// ErrNotSealed is the answer of OpenRepair for damage that cannot be repaired
	// while the log is open: in a segment of which no entry counts, or in another
	// file.
	ErrNotSealed = errors.New("not a sealed segment")
	// ErrNotCommitted: not all entries of the segment are known to be committed yet,
	// or it is still written to. The next write begins another segment then.
	ErrNotCommitted = errors.New("the segment has entries that are not known to be committed")
)
