package record

// Offset numbers a record within one log. Offsets are dense from 0: the
// record after offset n has offset n+1. An offset counts records; a position
// counts bytes in a file.
type Offset int64

// SessionID names an append session. It is unique in the cluster, never 0
// and never reused; 0 means "no session".
type SessionID uint64

// sessionOwnerShift is where the owner lies in the id of a session. What is below counts sessions, a
// trillion of them; the id remains positive in 64 bits, as Kafka's producer ids are.
const sessionOwnerShift = 40

// MaxSessionOwner is the largest owner of a session.
const MaxSessionOwner = 1<<(63-sessionOwnerShift) - 1

// Owner returns the number of the principal that opened the session; 0: nobody's, as where rights are not
// enforced.
func (id SessionID) Owner() uint32 { return uint32(id >> sessionOwnerShift) }

// Owned is the id that a session gets for an owner.
func (id SessionID) Owned(owner uint32) SessionID {
	return id | SessionID(owner)<<sessionOwnerShift
}

// Epoch counts the lives of one session. Sequences start at 0 in each epoch;
// an append of a lower epoch than the session's is refused.
type Epoch uint32

// Sequence numbers a record within one (session, epoch), from 0, without gaps.
type Sequence uint64

// WriterTerm fences writers: the log remembers the highest one that was
// acquired and refuses appends that carry a lower one. 0 means "not fenced".
type WriterTerm uint64
