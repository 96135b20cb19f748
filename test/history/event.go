package history

import (
	"encoding/hex"
	"fmt"
)

// Event is one line of a history. Which fields it has depends on Kind and Verb;
// all others are left out. Offsets that may be absent are pointers, as 0 is an
// offset.
type Event struct {
	// Time is in ns on a clock that all clients of the history share. It never
	// decreases from line to line.
	Time int64 `json:"t"`
	Kind Kind  `json:"event"`
	// Client and Call name the call that an invoke, frame or return belongs to.
	// A call's number is never used twice by its client.
	Client string `json:"client,omitempty"`
	Call   uint64 `json:"call,omitempty"`
	Verb   Verb   `json:"do,omitempty"` // of an invoke
	Log    string `json:"log,omitempty"`
	// Node is whom an invoke asked, for people, or whose replica a line is about.
	Node string `json:"node,omitempty"`

	// What an invoke asks for.

	// Deadline is the time by which the call returns, 0: none.
	Deadline int64 `json:"deadline,omitempty"`
	// Hashes of the records that are appended, in order; of a frame, those that
	// were read; of a replica line, those of the entries' payloads.
	Hashes Hashes `json:"hashes,omitempty"`
	// Session, Epoch and Sequence of the first record, as the servers know them:
	// the records of an epoch have the numbers 0, 1, 2, ... A session of 0 is none.
	Session  uint64 `json:"session,omitempty"`
	Epoch    uint32 `json:"epoch,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// Implicit marks an append in a session that its first record opens, as those
	// of Kafka's producers do.
	Implicit bool `json:"implicit,omitempty"`
	// LowWater is what an append reports: the client has the answers for all
	// records of the epoch below it.
	LowWater uint64 `json:"low_water,omitempty"`
	// Lease of a session that is opened, in ms; 0: not known.
	Lease uint32 `json:"lease,omitempty"`
	// Lane and Number say in what order a client appends when it does not know
	// sessions itself. Numbers of one lane rise.
	Lane   string `json:"lane,omitempty"`
	Number uint64 `json:"number,omitempty"`
	// Writer is the term that an append carries, 0: none; on the return of a
	// writer call the term that was acquired.
	Writer uint64 `json:"writer,omitempty"`
	// ExpectedEnd makes an append conditional.
	ExpectedEnd *int64 `json:"expected_end,omitempty"`
	// Keys of the records that are appended, in order, if a Check may be for them.
	Keys []string `json:"keys,omitempty"`
	// Check makes an append conditional, too.
	Check *Check `json:"check,omitempty"`
	// From is where a read begins; absent: wherever the first frame does.
	From        *int64      `json:"from,omitempty"`
	Consistency Consistency `json:"consistency,omitempty"`
	Least       int64       `json:"least,omitempty"` // with AtLeast
	// Before is the start that a trim asks for.
	Before      int64 `json:"before,omitempty"`
	FastForward bool  `json:"fast_forward,omitempty"`
	// Hold is the name of a hold that is set, kept or released. One that is set begins
	// at From, if that is known, and has a Lease, if it has one.
	Hold string `json:"hold,omitempty"`
	// Group is that of Kafka's consumers whose offset is committed, at From, or asked for.
	Group string `json:"group,omitempty"`

	// What a return, or a frame of a read, reports.

	Outcome Outcome `json:"outcome,omitempty"`
	// Reason of an outcome other than OK, as docs/errors.md names it.
	Reason string `json:"reason,omitempty"`
	// First is the offset of the first record of an append or of a frame; the
	// others follow without a gap. On the return of a resolve: where the record is; of a
	// hold that was set: where it begins; of a committed offset: that, absent if there is none.
	First *int64 `json:"first,omitempty"`
	// Ranges take the place of First for an append whose records do not follow
	// one another: pairs of first and end.
	Ranges [][2]int64 `json:"ranges,omitempty"`
	// Forgotten: the append is in the log, and the log no longer knows where.
	Forgotten bool `json:"forgotten,omitempty"`
	// Written is where the leader has written the first record of an append that is
	// not known to be durable: of an outcome that is Unknown.
	Written *int64 `json:"written,omitempty"`
	// Start and End are the bounds of the log in the answer. An End on the return
	// of a read says that the read continued up to there.
	Start *int64 `json:"start,omitempty"`
	End   *int64 `json:"end,omitempty"`
	// State is the answer of a resolve.
	State State `json:"state,omitempty"`

	// Digest is that of the records below Covered, which a log has as of the offset that was
	// asked for, as From, or of its end.
	Digest  string `json:"digest,omitempty"`
	Covered *int64 `json:"covered,omitempty"`

	// InFlight is how many appends a client may have open, on its client line.
	InFlight int `json:"in_flight,omitempty"`
	// Retention, on a log line: the servers trim by themselves.
	Retention bool `json:"retention,omitempty"`
	// Index, RaftTerm and Commit are of a replica line: its Hashes are those of
	// the entries from Index on, all of one term, and Commit is the replica's
	// commit index at the end. A line without Index has bounds alone.
	Index    uint64 `json:"index,omitempty"`
	RaftTerm uint64 `json:"term,omitempty"`
	Commit   uint64 `json:"commit,omitempty"`
}

// Check is the condition that no record at Since or above has one of the keys, or a key that
// begins with one of the prefixes.
type Check struct {
	Since    int64    `json:"since"`
	Keys     []string `json:"keys,omitempty"`
	Prefixes []string `json:"prefixes,omitempty"`
}

// Kind is what a line is about.
type Kind string

// The kinds of lines.
const (
	Invoke  Kind = "invoke"  // a call begins
	Frame   Kind = "frame"   // a read got records, or a heartbeat
	Return  Kind = "return"  // a call ends
	Client  Kind = "client"  // what holds for a client, before its first call
	Crash   Kind = "crash"   // a client is gone, and its open calls with it
	Log     Kind = "log"     // what holds for a log, before it is first used
	Replica Kind = "replica" // what a replica holds at the end
)

// Verb is what a call does.
type Verb string

// The verbs.
const (
	Append       Verb = "append"
	Read         Verb = "read"
	Info         Verb = "info"
	Trim         Verb = "trim"
	OpenSession  Verb = "open_session"
	CloseSession Verb = "close_session"
	KeepSession  Verb = "keep_session"
	EndEpoch     Verb = "end_epoch"
	Resolve      Verb = "resolve"
	Writer       Verb = "writer"
	SetHold      Verb = "set_hold"
	KeepHold     Verb = "keep_hold"
	ReleaseHold  Verb = "release_hold"
	Digest       Verb = "digest"
	CommitOffset Verb = "commit_offset" // of a group
	GroupOffset  Verb = "group_offset"  // what that is
)

// Outcome is what a client knows of a call that has returned.
type Outcome string

// The outcomes. A call that never returns is as good as Unknown.
const (
	OK      Outcome = "ok"      // done, and whoever asks will see it
	Failed  Outcome = "failed"  // not done, and it never will be
	Unknown Outcome = "unknown" // perhaps done, perhaps still to be done
)

// Consistency is how fresh a read or an info has to be.
type Consistency string

// The levels. A bounded age is checked as Any: the history does not show when a
// node looked.
const (
	Linearizable Consistency = "linearizable" // and so is what says nothing
	AtLeast      Consistency = "at_least"
	Any          Consistency = "any"
)

// State is what a resolve says of an append.
type State string

// The states.
const (
	Committed State = "committed"
	Pending   State = "pending"
	NotNow    State = "not_now"
	Never     State = "never"
	Gone      State = "forgotten"
)

// Hashes stand for the content of records: 16 hexadecimal digits each, without
// anything between.
type Hashes []uint64

// MarshalText writes the digits.
func (h Hashes) MarshalText() ([]byte, error) {
	out := make([]byte, 0, 16*len(h))
	for _, one := range h {
		var b [8]byte
		for i := range b {
			b[i] = byte(one >> (56 - 8*i))
		}
		out = hex.AppendEncode(out, b[:])
	}
	return out, nil
}

// UnmarshalText reads them.
func (h *Hashes) UnmarshalText(text []byte) error {
	if len(text)%16 != 0 {
		return fmt.Errorf("hashes of %d digits, not a multiple of 16", len(text))
	}
	*h = nil
	if len(text) == 0 {
		return nil
	}
	out := make(Hashes, len(text)/16)
	var b [8]byte
	for i := range out {
		if _, err := hex.Decode(b[:], text[16*i:16*i+16]); err != nil {
			return fmt.Errorf("hash %d: %w", i, err)
		}
		for _, digit := range b {
			out[i] = out[i]<<8 | uint64(digit)
		}
	}
	*h = out
	return nil
}
