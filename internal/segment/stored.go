package segment

import (
	"io"

	"strandline.dev/internal/record"
)

// StoredCursor is a Cursor of a log whose batches lie in files as they were sent.
type StoredCursor interface {
	Cursor
	// Verified reports whether what comes next has been read before and matched its
	// checksums, so that NextStored has a chance.
	Verified() bool
	// NextStored is Next for those who have the system send batches from the file. It
	// gives only what has been verified since the log was opened, and in large pieces;
	// otherwise, or if anything is unusual, it reports false and leaves the cursor where
	// it is.
	NextStored(limit record.Offset, maxBytes int) (Stored, bool)
}

// Stored is a run of committed batches where they lie in a file.
type Stored struct {
	File    io.ReaderAt
	Batches []StoredBatch
	// Release ends the use of the file. The bytes of Batches are never written again, for a
	// socket may hold them by reference long after that.
	Release func()
	// Distrust has what was verified in the file verified again when it is next read: it
	// could not be sent.
	Distrust func()
}

// StoredBatch is the place of one of them.
type StoredBatch struct {
	Position int64
	Size     int
	End      record.Offset // behind its last record
}
