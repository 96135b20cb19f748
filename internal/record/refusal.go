package record

import (
	"errors"
	"fmt"
)

// Reason is the reason of a refusal. Each protocol maps it to a code of its own, and a test
// checks that every server maps every reason.
type Reason uint8

const (
	Invalid          Reason = iota + 1 // the request is malformed; never in the log
	TooLarge                           // over a documented limit
	LogNotFound                        // no log of that name
	LogExists                          // there is a log of that name already
	OffsetTrimmed                      // read below the start; Start carries the new one
	OffsetBeyondEnd                    // read or trim beyond the end; End carries it
	SessionNotFound                    // never opened, or forgotten
	SessionExpired                     // closed or its lease ran out
	StaleEpoch                         // the session has moved to a higher epoch
	SequenceGap                        // a sequence before this one is missing; Expected carries it
	OutcomeForgotten                   // a duplicate below the low-water mark
	Fenced                             // a newer writer term holds the log
	EndMismatch                        // conditional append; End carries the real end
	NotLeader                          // another node leads; Leader names it if known
	Full                               // no room on a majority; trim or wait
	Busy                               // a queue or budget of this node is full
	Sealed                             // the log takes no more appends
	OutcomeUnknown                     // leadership or the node was lost: may be in the log
	StorageFailed                      // this replica's disk failed; it has stopped
	Corrupt                            // stored bytes do not match their checksum; not served
	DataLost                           // a memory log lost its quorum; offsets below are gone
	ShuttingDown                       // the node is stopping
	Unsupported                        // this version does not support it
	Stale                              // this replica cannot meet the bound of the read
	NoNode                             // no node of that name, or not one that the call needs
	NotMember                          // this node is in no cluster yet
	LogReplaced                        // the log has a different id than the caller expects; LogID carries it
	Precondition                       // the cluster is not in the state that the change requires
	Held                               // a hold keeps records that the trim would remove; Hold is that hold
	HoldNotFound                       // no hold of that name: released, expired, broken or never set
	Unauthenticated                    // the caller's credentials are missing or not valid
	Denied                             // the caller lacks the right
	FilterInvalid                      // the expression of a filter is not valid; Line and Column say where
	FilterFailed                       // the expression fails on a record; At is its offset
	Conflict                           // checked append; At and Key are of a record that matches
	CheckTooOld                        // checked append; Start is the least offset since which a check can be decided
	reasonEnd
)

// facts has for each reason its name in protocols, whether the same call may succeed later, and
// whether the request may have taken effect nevertheless.
var facts = [reasonEnd]struct {
	name    string
	retry   bool
	outcome Outcome
}{
	Invalid:          {"INVALID", false, NotDone},
	TooLarge:         {"TOO_LARGE", false, NotDone},
	LogNotFound:      {"LOG_NOT_FOUND", false, NotDone},
	LogExists:        {"LOG_EXISTS", false, NotDone},
	OffsetTrimmed:    {"OFFSET_TRIMMED", false, NotDone},
	OffsetBeyondEnd:  {"OFFSET_BEYOND_END", false, NotDone},
	SessionNotFound:  {"SESSION_NOT_FOUND", false, NotDone},
	SessionExpired:   {"SESSION_EXPIRED", false, NotDone},
	StaleEpoch:       {"STALE_EPOCH", false, NotDone},
	SequenceGap:      {"SEQUENCE_GAP", false, NotDone},
	OutcomeForgotten: {"OUTCOME_FORGOTTEN", false, Done},
	Fenced:           {"FENCED", false, NotDone},
	EndMismatch:      {"END_MISMATCH", false, NotDone},
	NotLeader:        {"NOT_LEADER", true, NotDone},
	Full:             {"FULL", true, NotDone},
	Busy:             {"BUSY", true, NotDone},
	Sealed:           {"SEALED", false, NotDone},
	OutcomeUnknown:   {"OUTCOME_UNKNOWN", true, MaybeDone},
	StorageFailed:    {"STORAGE_FAILED", true, MaybeDone},
	Corrupt:          {"CORRUPT", false, NotDone},
	DataLost:         {"DATA_LOST", false, NotDone},
	ShuttingDown:     {"SHUTTING_DOWN", true, NotDone},
	Unsupported:      {"UNSUPPORTED", false, NotDone},
	Stale:            {"STALE", true, NotDone},
	NoNode:           {"NO_NODE", false, NotDone},
	NotMember:        {"NOT_MEMBER", true, NotDone},
	LogReplaced:      {"LOG_REPLACED", false, NotDone},
	Precondition:     {"PRECONDITION", false, NotDone},
	Held:             {"HELD", false, NotDone},
	HoldNotFound:     {"HOLD_NOT_FOUND", false, NotDone},
	Unauthenticated:  {"UNAUTHENTICATED", false, NotDone},
	Denied:           {"PERMISSION_DENIED", false, NotDone},
	FilterInvalid:    {"FILTER_INVALID", false, NotDone},
	FilterFailed:     {"FILTER_FAILED", false, NotDone},
	Conflict:         {"CONFLICT", false, NotDone},
	CheckTooOld:      {"CHECK_TOO_OLD", false, NotDone},
}

// Reasons lists every reason, for tables that must be complete.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonEnd-1)
	for r := Invalid; r < reasonEnd; r++ {
		all = append(all, r)
	}
	return all
}

// String returns the reason's name in all protocols, such as OFFSET_TRIMMED.
func (r Reason) String() string {
	if r == 0 || r >= reasonEnd {
		return fmt.Sprintf("REASON_%d", uint8(r))
	}
	return facts[r].name
}

// Retryable reports whether the same call may succeed later or elsewhere.
func (r Reason) Retryable() bool { return r > 0 && r < reasonEnd && facts[r].retry }

// Outcome returns what is known about an operation that was refused for r.
func (r Reason) Outcome() Outcome {
	if r == 0 || r >= reasonEnd {
		return MaybeDone
	}
	return facts[r].outcome
}

// Refusal is the error of every verb. Detail is for people; the other fields are for programs,
// and only those that the reason names are set.
type Refusal struct {
	Reason     Reason
	Detail     string
	Start      Offset   // OffsetTrimmed, CheckTooOld; Busy: a check since there asks for the same, see sequence.Search; 0: none
	End        Offset   // OffsetBeyondEnd, EndMismatch
	Expected   Sequence // SequenceGap: the next sequence that the log accepts
	Epoch      Epoch    // StaleEpoch: the session's epoch
	WriterTerm WriterTerm
	Leader     string // NotLeader: address of the leader's gRPC port, if known
	Limit      int64  // TooLarge: the limit, in the unit of Detail
	LogID      uint64 // LogReplaced: id of the log that has the name now
	At         Offset // FilterFailed, Conflict
	Key        []byte `json:",omitempty"` // Conflict: of the record at At; nil: it has none
	Line       int    // FilterInvalid: the place in the expression, both from 1, in characters
	Column     int
	OwnShare   bool  `json:",omitempty"` // Busy, TooLarge: the caller's own share is used up
	Hold       *Hold // Held: the lowest hold; OffsetTrimmed: the highest hold with a pointer, if any
}

// MaxConflictKey bounds the key that a refusal carries, in bytes. Of a longer one it has the
// beginning in its text.
const MaxConflictKey = 1 << 10

// Refuse returns a refusal with a formatted detail.
func Refuse(r Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// RefusalOf returns the refusal that err is or wraps, and nil for nil. For any other error it
// returns a refusal with reason Invalid.
func RefusalOf(err error) *Refusal {
	if err == nil {
		return nil // r below is allocated
	}
	var r *Refusal
	if !errors.As(err, &r) {
		r = Refuse(Invalid, "%v", err)
	}
	return r
}

func (e *Refusal) Error() string { return e.Reason.String() + ": " + e.Detail }

// Is makes errors.Is(err, &Refusal{Reason: r}) match on the reason alone.
func (e *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Reason == e.Reason
}
