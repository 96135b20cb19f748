package sequence

import (
	"iter"
	"math"

	"strandline.dev/internal/record"
)

// NoExpectation, as Append.ExpectedEnd, makes the append unconditional.
const NoExpectation record.Offset = -1

// Append is one request of a producer: batches that a server has checked.
type Append struct {
	Session record.SessionID // 0: no session, no duplicate detection
	Epoch   record.Epoch     // a higher epoch than the session's begins with First 0
	// First is the sequence of the first record of the request; the others follow without gaps. For
	// an implicit session it is Kafka's number, modulo 2^31.
	First record.Sequence
	// LowWater is the sequence below which the client has all answers in this epoch. It is never
	// above First.
	LowWater    record.Sequence
	WriterTerm  record.WriterTerm // 0: not fenced
	ExpectedEnd record.Offset     // the log must end here; NoExpectation: unconditional
	Atomic      bool              // all batches become durable together or not at all
	Check       *Check            // must hold; nil: none. With it the append must be Atomic
	// Implicit marks a Kafka producer, whose first batch opens the session or
	// raises its epoch.
	Implicit bool
	Batches  []record.Batch // copied, not kept; their bytes stay as they are
	// Digested is set if the log may have a digest, which begins with this request if there is none.
	Digested bool
	Records  int     // sum over Batches
	Bytes    int     // sum over Batches
	Stages   *Stages // to be filled in unless nil; it does not affect decisions
}

// kafkaSequences is the number of sequences that Kafka's int32 distinguishes: the highest is
// followed by 0.
const kafkaSequences = 1 << 31

// malformed refuses a request that is not valid in any state of the log.
func malformed(a *Append) *record.Refusal {
	switch {
	case len(a.Batches) == 0 || a.Records <= 0:
		return record.Refuse(record.Invalid, "the append has no records")
	case uint64(a.Records) > math.MaxUint32:
		r := record.Refuse(record.TooLarge, "%d records in one request, the limit is %d", a.Records, uint32(math.MaxUint32))
		r.Limit = math.MaxUint32
		return r
	case a.Check != nil && !a.Atomic:
		return record.Refuse(record.Invalid, "a checked append must be atomic")
	case a.Session == 0:
		return nil
	case a.Implicit && a.First >= kafkaSequences:
		return record.Refuse(record.Invalid, "the sequence of a Kafka producer must be below %d, not %d", int64(kafkaSequences), a.First)
	case a.First > math.MaxUint64-record.Sequence(a.Records):
		return record.Refuse(record.Invalid, "the sequences from %d on overflow", a.First)
	case !a.Implicit && a.LowWater > a.First:
		return record.Refuse(record.Invalid, "the low-water mark %d is above the first sequence %d", a.LowWater, a.First)
	}
	return nil
}

// unwrap returns the 64-bit sequence nearest to next that is congruent to Kafka's number n.
func unwrap(next, n record.Sequence) record.Sequence {
	distance := int64((n - next) % kafkaSequences)
	if distance >= kafkaSequences/2 && next >= record.Sequence(kafkaSequences-distance) {
		distance -= kafkaSequences
	}
	return next + record.Sequence(distance)
}

// encodedBytes returns the size of a request in an entry.
func encodedBytes(a *Append) int { return a.Bytes + len(a.Batches)*batchMetaBytes }

// Answer is a decision, and the proposal on which it rests.
type Answer struct {
	// Refusal is nil if the request was accepted, or is a duplicate that gets
	// the first answer again. A refused append has no effect.
	Refusal *record.Refusal
	// First and More are the offsets of the records in the order of the request, with contiguous
	// ones merged; see Runs. With a refusal they are the leading records of the request that are in
	// the log nevertheless, because of an earlier send. Nearly every append has one run, which costs
	// no allocation.
	First Run
	More  []Run
	// RestsOn is the number of the proposal that must commit before the answer may
	// leave; 0 if it rests on committed entries alone.
	RestsOn uint64
	// Duplicate is set if nothing new entered the log.
	Duplicate bool

	WriterTerm record.WriterTerm // AcquireWriter, LeaseWriter: the term granted
	Epoch      record.Epoch      // EndEpoch: the session's new epoch
	Start, End record.Offset     // Trim, Seal, AcquireWriter, LeaseWriter: the log's range after it
}

// Run is a sequence of records with consecutive offsets.
type Run struct {
	First record.Offset
	Count uint32
}

// Runs yields the offsets of the records of the request.
func (a *Answer) Runs() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		if a.First.Count == 0 || !yield(a.First) {
			return
		}
		for _, run := range a.More {
			if !yield(run) {
				return
			}
		}
	}
}

// add adds count records at first behind the existing runs.
func (a *Answer) add(first record.Offset, count uint32) {
	last := &a.First
	if len(a.More) > 0 {
		last = &a.More[len(a.More)-1]
	}
	switch {
	case last.Count == 0:
		*last = Run{First: first, Count: count}
	case last.First+record.Offset(last.Count) == first && last.Count+count > last.Count:
		last.Count += count
	default:
		a.More = append(a.More, Run{First: first, Count: count})
	}
}

// Proposal is an entry to be proposed to Raft. Data is valid until the next call of Append,
// Command, Propose or Drop; the proposer copies it.
type Proposal struct {
	Number uint64 // increasing from 1, never reused by one Sequencer
	Data   []byte // an encoded record.Entry
	CRC    uint32 // record.Checksum of Data
	First  record.Offset
	Count  uint32 // records; 0 for a command
	Time   int64  // leader's time in the entry, unix ms
}

// State is the state of one sequence of a session.
type State uint8

const (
	// Committed means that the record is in the log, at Outcome.Offset.
	Committed State = iota + 1
	// Pending means that the record is in flight.
	Pending
	// NotNow means that the record is neither in the log nor in flight, but may yet be appended.
	NotNow
	// Never means that the record is not in the log and can no longer be appended.
	Never
	// Forgotten means that the log no longer knows. Below the session's low-water mark it means that
	// the record was committed.
	Forgotten
)

var stateNames = [...]string{Committed: "committed", Pending: "pending", NotNow: "not now", Never: "never", Forgotten: "forgotten"}

func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "invalid"
	}
	return stateNames[s]
}

// Outcome is the result of Resolve.
type Outcome struct {
	State  State
	Offset record.Offset // Committed only
	// Next is the first sequence of the epoch that is not in the log. It is valid if Known is set:
	// the log knows the epoch.
	Next  record.Sequence
	Known bool
}
