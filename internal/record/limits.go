package record

// Limits of one record, batch and entry. Each is finite so that input from
// the wire and the disk has a known cost.
const (
	// MaxRecordBytes bounds one record: its key, value and headers together.
	MaxRecordBytes = 16 << 20

	// MaxBatchBytes bounds one encoded batch. A batch is never split, so it
	// must hold the largest record with its framing.
	MaxBatchBytes = MaxRecordBytes + 64<<10

	// MaxBatchRecords bounds the records of one batch. It keeps a hostile
	// record count from costing memory: counts are checked before use.
	MaxBatchRecords = 1 << 20

	// MaxInflatedBytes bounds what a compressed batch may inflate to. Checking
	// or reading one that goes beyond holds up to 2.25 times as much, for a
	// moment: the buffer at the limit, and the one that would replace it.
	MaxInflatedBytes = 64 << 20

	// EntryTargetBytes is the size at which the sequencer closes an entry. A
	// larger batch travels in an entry of its own. 1 MiB keeps one
	// write + fdatasync near the cost of the sync alone.
	EntryTargetBytes = 1 << 20

	// MaxEntryBytes bounds one encoded entry as read from disk or a peer: an
	// atomic request of the largest size, with its metadata.
	MaxEntryBytes = 2*MaxBatchBytes + 1<<20
)
