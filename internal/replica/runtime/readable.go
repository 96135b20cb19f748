package runtime

import (
	"fmt"
	"log/slog"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
	"strandline.dev/internal/segment"
)

// Readable is what is committed of a log, in memory and in segments, for those who read
// it: readers, and who computes digests. All methods may be called from any goroutine.
type Readable struct {
	log    segment.Log
	tail   *tail.Tail
	reads  *budget.Pool // what is read ahead takes from it
	logger *slog.Logger
	keeper keeper
	*digests
}

// keeper is who runs the log that is read.
type keeper interface {
	damaged(err error)      // what a reader has found the log to be
	readByKey(unknown bool) // see loop
	appliedTo() uint64      // the index of an entry up to which all are committed, and stored
}

func newReadable(log segment.Log, t *tail.Tail, reads *budget.Pool, logger *slog.Logger, k keeper) *Readable {
	r := &Readable{log: log, tail: t, reads: reads, logger: logger, keeper: k}
	r.digests = &digests{readable: r, turn: make(chan struct{}, 1)}
	return r
}

// OpenStopped returns what the log of a replica that does not run is known to have committed, which may
// be less than has been. It writes nothing.
func OpenStopped(log segment.Log, logger *slog.Logger) (*Readable, error) {
	hard := log.HardState()
	has, err := core.ReadStopped(log, hard, hard.Commit)
	if err != nil {
		return nil, fmt.Errorf("read what has committed: %w", err)
	}
	start, end := has.Bounds()
	memory := budget.New(ample)
	return newReadable(log, tail.New(memory.Tails, start, end), memory.Reads, logger, nobody{hard.Commit}), nil
}

// Bounds are the range of records that can be read, [start, end), or why there is none any more.
func (r *Readable) Bounds() (start, end record.Offset, err error) { return r.tail.Bounds() }

// NewReader begins at an offset, which may lie at or beyond the end.
func (r *Readable) NewReader(from record.Offset) *Reader { return &Reader{readable: r, next: from} }

// nobody runs the log.
type nobody struct{ commit uint64 }

func (nobody) damaged(error)       {}
func (nobody) readByKey(bool)      {}
func (n nobody) appliedTo() uint64 { return n.commit }
