package record

// Offset numbers a record within one log. Offsets are dense from 0: the
// record after offset n has offset n+1. An offset counts records; a position
// counts bytes in a file.
type Offset int64

// SessionID names an append session. It is unique in the cluster, never 0
// and never reused; 0 means "no session".
type SessionID uint64

// Epoch counts the lives of one session. Sequences start at 0 in each epoch;
// an append of a lower epoch than the session's is refused.
type Epoch uint32

// Sequence numbers a record within one (session, epoch), from 0, without gaps.
type Sequence uint64

// WriterTerm fences writers: the log remembers the highest one that was
// acquired and refuses appends that carry a lower one. 0 means "not fenced".
type WriterTerm uint64
