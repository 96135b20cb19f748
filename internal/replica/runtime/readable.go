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

// Readable is the committed part of a log, in memory and in segments, for reads and for computing
// digests. All methods may be called from any goroutine.
type Readable struct {
	log    segment.Log
	tail   *tail.Tail
	reads  *budget.Pool // memory for reading ahead
	logger *slog.Logger
	keeper keeper
	*digests
}

// keeper is the part that runs the log.
type keeper interface {
	damaged(err error)      // reports damage that a reader has found
	readByKey(unknown bool) // see loop
	appliedTo() uint64      // index up to which all entries are committed and stored
}

func newReadable(log segment.Log, t *tail.Tail, reads *budget.Pool, logger *slog.Logger, k keeper) *Readable {
	r := &Readable{log: log, tail: t, reads: reads, logger: logger, keeper: k}
	r.digests = &digests{readable: r, turn: make(chan struct{}, 1)}
	return r
}

// OpenStopped returns the part of a stopped replica's log that is known to be committed, which
// may be less than is. It writes nothing.
func OpenStopped(log segment.Log, logger *slog.Logger) (*Readable, error) {
	hard := log.HardState()
	has, err := core.ReadStopped(log, hard, hard.Commit)
	if err != nil {
		return nil, fmt.Errorf("read committed entries: %w", err)
	}
	start, end := has.Bounds()
	memory := budget.New(ample)
	return newReadable(log, tail.New(memory.Tails, start, end), memory.Reads, logger, stoppedKeeper{hard.Commit}), nil
}

// Bounds returns the range of readable records, [start, end), or the reason why there is none any
// more.
func (r *Readable) Bounds() (start, end record.Offset, err error) { return r.tail.Bounds() }

// NewReader returns a reader that starts at an offset, which may be at or beyond the end.
func (r *Readable) NewReader(from record.Offset) *Reader { return &Reader{readable: r, next: from} }

// stoppedKeeper is the keeper of a stopped log.
type stoppedKeeper struct{ commit uint64 }

func (stoppedKeeper) damaged(error)       {}
func (stoppedKeeper) readByKey(bool)      {}
func (k stoppedKeeper) appliedTo() uint64 { return k.commit }
