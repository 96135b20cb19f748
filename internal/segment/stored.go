package segment

import (
	"io"

	"strandline.dev/internal/record"
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
