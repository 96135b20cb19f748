package record

// Offset is the number of a record within one log. Offsets are consecutive from 0: the record
// after offset n has offset n+1. An offset counts records; a position counts bytes in a file.
type Offset int64

// SessionID identifies an append session. It is unique in the cluster, never 0 and never reused;
// 0 means "no session".
type SessionID uint64

// principalShift is the position of the principal's number in the id of a session. The lower bits
// count sessions, a trillion of them. The id remains positive in 64 bits, as Kafka's producer ids
// are.
const principalShift = 40

// MaxSessionPrincipal is the largest number of a principal in the id of a session.
const MaxSessionPrincipal = 1<<(63-principalShift) - 1

// Principal returns the number of the principal that opened the session; 0 if it is not known, for
// example because rights are not enforced.
func (id SessionID) Principal() uint32 { return uint32(id >> principalShift) }

// WithPrincipal returns the id with the number of the principal that opens the session.
func (id SessionID) WithPrincipal(principal uint32) SessionID {
	return id | SessionID(principal)<<principalShift
}

// Epoch is the number of an epoch of a session. Sequences start at 0 in each epoch; an append in
// a lower epoch than the session's is refused.
type Epoch uint32

// Sequence is the number of a record within one (session, epoch), from 0 and without gaps.
type Sequence uint64

// WriterTerm fences writers: the log stores the highest term that was acquired and refuses
// appends with a lower one. 0 means "not fenced".
type WriterTerm uint64
