package reading

import (
	"time"

	"strandline.dev/internal/filter"
	"strandline.dev/internal/record"
)

// NoOffset stands for "no limit" where an offset is optional.
const NoOffset record.Offset = -1

// FromKind says how a read names its beginning.
type FromKind uint8

const (
	FromStart FromKind = iota
	FromOffset
	FromTime
	FromTail
)

// From is where a read begins.
type From struct {
	Kind   FromKind
	Offset record.Offset // FromOffset
	Time   int64         // FromTime: unix ms, by the leader's clock at append
}

// Request is what a reader wants. The first limit reached ends the read.
type Request struct {
	From       From
	MaxRecords int64         // 0: no limit
	MaxBytes   int64         // of stored batches, at least one is given; 0: no limit
	Until      record.Offset // exclusive; NoOffset: no limit
	UntilTime  int64         // exclusive, unix ms; 0: no limit
	Follow     bool          // wait at the tail

	// Filter selects records, and parts of them; nil: all. MaxRecords and MaxBytes then
	// count what is selected.
	Filter *filter.Spec

	// Metered: the chunks count against the node's memory for reads until they are
	// released, so the caller releases each, and closes the reader.
	Metered bool

	// Little: each chunk is what a client is given that may not keep up, or one batch, however the client takes them. It
	// goes with Metered.
	Little bool

	// PayBy is how long the reader waits while its holder owes for what its batches have inflated to; then the read is refused
	// with Busy. It waits before its first chunk too, unlike others. Zero: as long as it takes. It goes with Metered.
	PayBy time.Time

	// Stored: chunks may be where they lie in files, see Chunk.Stored. It goes with no
	// limit but Until.
	Stored bool

	// The guarantee that a replica which does not lead must establish before it answers.
	Consistency Consistency
	AtLeast     record.Offset // ConsistencyAtLeast: wait until the end reaches it
	MaxAge      time.Duration // ConsistencyBounded: refused with STALE beyond it
}

// Consistency says how fresh a read has to be on a replica that may lag.
type Consistency uint8

const (
	// ConsistencyAny: whatever this replica knows to be committed.
	ConsistencyAny Consistency = iota
	// ConsistencyLinearizable: everything acknowledged before the read began.
	ConsistencyLinearizable
	// ConsistencyAtLeast: the committed end known here is at least an offset;
	// the read waits for it.
	ConsistencyAtLeast
	// ConsistencyBounded: the replica's end of the log is at most MaxAge old.
	// The read is refused, at its beginning and at any time later, when the
	// bound cannot be kept.
	ConsistencyBounded
)

// tooOld is readable when a read that waits at the tail had better look at its
// bound.
func (q *Request) tooOld() <-chan time.Time {
	if q.Consistency != ConsistencyBounded {
		return nil
	}
	return time.After(q.MaxAge / 2)
}
