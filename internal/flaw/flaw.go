// Package flaw breaks servers on purpose, to show that the proofs of
// docs/testing.md notice. Each flaw is a mistake that somebody could make. It
// stands where it would be made, in the code of production:
//
//	if mustSync && !flaw.Is(flaw.AckBeforeFsync) {
//		return s.sync()
//	}
//
// Only a build with the tag "broken" has them: STRANDLINE_FLAW names the one
// that a process makes, Choose does so in a test. In every other build Is is
// false for the compiler too, and nothing of them is left in the program.
package flaw

// Flaw is one mistake, under the name that STRANDLINE_FLAW has for it.
type Flaw string

const (
	// AckBeforeMajority: a leader answers an append once its own disk has it.
	AckBeforeMajority Flaw = "ack-before-majority"
	// AckBeforeFsync: what was written counts as durable, synced or not.
	AckBeforeFsync Flaw = "ack-before-fsync"
	// CutAtBadChecksum: recovery takes damage for a torn tail, and cuts it off
	// with all that follows.
	CutAtBadChecksum Flaw = "cut-at-bad-checksum"
	// VoteNotSynced: a vote is given before it is durable.
	VoteNotSynced Flaw = "vote-not-synced"
	// SessionsNotInSnapshot: a snapshot of the state leaves the sessions out.
	SessionsNotInSnapshot Flaw = "sessions-not-in-snapshot"
	// ReadsPastCommit: readers are shown what is stored, committed or not.
	ReadsPastCommit Flaw = "reads-past-commit"
	// LeaseRead: a leader answers a linearizable read without asking whether it
	// still leads.
	LeaseRead Flaw = "lease-read"
	// FollowerRead: a follower answers one without asking its leader.
	FollowerRead Flaw = "follower-read"
	// GapAccepted: a session takes a request that has overtaken another, so that
	// what is sent again after a failure comes in another order.
	GapAccepted Flaw = "gap-accepted"
	// TrimBeforeCommit: a trim is answered, and seen by readers, before it has
	// committed.
	TrimBeforeCommit Flaw = "trim-before-commit"
	// ExpiredSessionComesBack: a session that has ended takes the next request.
	ExpiredSessionComesBack Flaw = "expired-session-comes-back"
	// OffByOneAtRoll: who reads on from one segment to the next misses the last
	// entry of the first.
	OffByOneAtRoll Flaw = "off-by-one-at-roll"
	// FenceAtTheDoor: the writer term of an append is compared when it arrives,
	// and not when it is decided.
	FenceAtTheDoor Flaw = "fence-at-the-door"
	// ConditionAtTheDoor: so is the end that it expects.
	ConditionAtTheDoor Flaw = "condition-at-the-door"
	// DuplicateGetsNewOffset: what was sent again is appended again.
	DuplicateGetsNewOffset Flaw = "duplicate-gets-new-offset"
	// UnknownToldAsFailed: a leader that is deposed refuses what it had proposed,
	// as if that could not commit any more.
	UnknownToldAsFailed Flaw = "unknown-told-as-failed"
	// RecoveryTrustsTheCache: what a restart finds in files counts as durable,
	// though it may be in the page cache alone.
	RecoveryTrustsTheCache Flaw = "recovery-trusts-the-cache"
	// RollForgetsTheDirectory: the name of a new segment is not synced.
	RollForgetsTheDirectory Flaw = "roll-forgets-the-directory"
	// SnapshotRunsAhead: a snapshot holds one entry more than it says.
	SnapshotRunsAhead Flaw = "snapshot-runs-ahead"
	// StaleFramesCount: recovery goes on with what the last use of a recycled
	// file has left behind the end.
	StaleFramesCount Flaw = "stale-frames-count"
)
