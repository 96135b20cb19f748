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
	// FenceOnArrival: the writer term of an append is compared when it arrives,
	// and not when it is decided.
	FenceOnArrival Flaw = "fence-on-arrival"
	// ConditionOnArrival: so is the end that it expects.
	ConditionOnArrival Flaw = "condition-on-arrival"
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
	// PlacesForgotten: the log says of every record that was sent again that it has forgotten
	// where it is.
	PlacesForgotten Flaw = "places-forgotten"
	// LeaseCutShort: a session ends after half of its lease.
	LeaseCutShort Flaw = "lease-cut-short"
	// KeepRenewsNothing: a session that is kept without an append ends all the same.
	KeepRenewsNothing Flaw = "keep-renews-nothing"
	// ResolveOnFollower: a resolve is answered from what is known here, leader or not.
	ResolveOnFollower Flaw = "resolve-on-follower"
	// EpochStaysOpen: the end of an epoch is answered, and changes nothing.
	EpochStaysOpen Flaw = "epoch-stays-open"
	// ProducerBeginsAnywhere: an implicit session may begin with any sequence.
	ProducerBeginsAnywhere Flaw = "producer-begins-anywhere"
	// RefusedTrimIsDone: a trim beyond the end is refused, and trims up to the end.
	RefusedTrimIsDone Flaw = "refused-trim-is-done"
	// FullForEver: a leader that was without room takes no records any more.
	FullForEver Flaw = "full-for-ever"
	// WrittenAtCommit: an append that is answered before it is durable is told the committed
	// end as its place.
	WrittenAtCommit Flaw = "written-at-commit"
	// FirstEntryAnswers: an append that spans entries is answered when the first has committed.
	FirstEntryAnswers Flaw = "first-entry-answers"
	// HalfIsEnough: of two replicas one is taken for a majority.
	HalfIsEnough Flaw = "half-is-enough"
	// LeaseNotInSnapshot: a table that is restored gives each session the longest lease.
	LeaseNotInSnapshot Flaw = "lease-not-in-snapshot"
	// ConditionPerRound: the ends that appends expect are compared with where the
	// log ended before those that are decided with them.
	ConditionPerRound Flaw = "condition-per-round"
	// MoveNotDurable: a move is reported done when it has committed, whoever knows that on disk.
	MoveNotDurable Flaw = "move-not-durable"
)
