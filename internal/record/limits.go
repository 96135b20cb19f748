package record

// Limits of one record, batch and entry. Each is finite, so the cost of input from the network
// and the disk is bounded.
const (
	// MaxRecordBytes bounds the key, value and headers of one record together.
	MaxRecordBytes = 16 << 20

	// MaxBatchBytes bounds one encoded batch. A batch is never split, so it
	// must hold the largest record with its framing.
	MaxBatchBytes = MaxRecordBytes + 64<<10

	// MaxBatchRecords bounds the records of one batch. A count is checked before use, so a malicious
	// one costs no memory.
	MaxBatchRecords = 1 << 20

	// MaxInflatedBytes bounds the decompressed size of a batch. Checking or reading a batch that
	// exceeds it temporarily takes up to 2.25 times as much: the buffer at the limit, and the one
	// that would replace it.
	MaxInflatedBytes = 64 << 20

	// EntryTargetBytes is the size at which the sequencer closes an entry. A larger batch gets an
	// entry of its own. With 1 MiB, one write and fdatasync cost little more than the sync alone.
	EntryTargetBytes = 1 << 20

	// MaxEntryBytes bounds one encoded entry as read from disk or a peer: an atomic request of the
	// maximum size, with its metadata.
	MaxEntryBytes = 2*MaxBatchBytes + 1<<20
)
