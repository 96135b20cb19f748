package statemachine

import (
	"errors"
	"fmt"

	"strandline.dev/client"
	"strandline.dev/statemachine/internal/rules"
)

var (
	// ErrDiverged means that the state of this replica differs from that of most others. Its cause is a
	// *Divergence. Retrying does not help: see docs/state-machine.md.
	ErrDiverged = errors.New("the state has diverged from that of other replicas")
	// ErrNoSnapshot means that the log begins above the state of the replica, and that there is no
	// snapshot that can be read from which to continue.
	//
	// It is also the error where the log is whole, but each snapshot is damaged: a part of one is in the
	// machine then. Once the damaged snapshots are removed, a replica with an empty machine applies the log
	// from its start.
	ErrNoSnapshot = errors.New("no usable snapshot covers the trimmed part of the log")
	// ErrAhead means that a snapshot, or the state of the machine, contains records from the end of the log on:
	// they were lost in a recovery of the cluster, and their offsets are given to other records. Retrying does
	// not help: see docs/state-machine.md.
	ErrAhead = errors.New("the state contains records that the log has lost")
	// ErrHoldOfAnother means that the hold of the replica belongs to another directory of snapshots. Retrying does
	// not help: each directory needs a hold with a name of its own, see WithHold.
	ErrHoldOfAnother = errors.New("the hold belongs to another directory of snapshots")
	// ErrStopped means that the replica has stopped or was closed. The cause is Replica.Err.
	ErrStopped = errors.New("the replica has stopped")
	// ErrResultLost means that a proposal was applied, and that its result is not known: more than 65,536
	// records came between it and the answer, or others had trimmed the record before this replica got it, so
	// that it continued from a snapshot.
	ErrResultLost = errors.New("the result of the proposal is no longer stored")
)

// Error is the error of a proposal or query that does not come from the log.
type Error struct {
	// Outcome says whether the proposal is in the log, and so is or will be applied. It has no meaning for a
	// query.
	Outcome client.Outcome
	// Offset is that of the record if the Outcome is client.Done, and otherwise 0.
	Offset int64

	log    string
	reason error // ErrStopped, ErrResultLost, or that of a context
	cause  error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("state of log %q: %v", e.log, e.reason)
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Outcome == client.Done {
		text += fmt.Sprintf("; the record is in the log at offset %d", e.Offset)
	}
	return text
}

// Unwrap returns the reason and its cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.reason}
	}
	return []error{e.reason, e.cause}
}

// Divergence is a difference between the state of this replica and that of others.
type Divergence struct {
	At         int64  // the states differ in which the records below it are applied
	Own, Other []byte // digests
	// Replica is the name of a replica with the other digest.
	Replica string
	// Agree counts the replicas with the digest of this one, itself included, and Disagree those with
	// the other one.
	Agree, Disagree int
}

func (d *Divergence) Error() string {
	return fmt.Sprintf("at offset %d the digest of this replica is %x, as that of %d in all; that of %d others is %x, %s among them",
		d.At, d.Own, d.Agree, d.Disagree, d.Other, d.Replica)
}

// Is reports whether target is ErrDiverged.
func (d *Divergence) Is(target error) bool { return target == ErrDiverged }

func fromRules(d *rules.Divergence) *Divergence {
	return &Divergence{At: d.At, Own: d.Own, Other: d.Other, Replica: d.Replica, Agree: d.Agree, Disagree: d.Disagree}
}
