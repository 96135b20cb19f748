package sequence

import "strandline.dev/internal/record"

// Limits of one log's sessions. Each is finite so that the memory which clients
// that never return cost is bounded.
const (
	// MaxOpenSessions bounds the sessions that are open at once. At the bound
	// a new one is refused as Busy, until others end.
	MaxOpenSessions = 100_000

	// EvictSilentMs is how long a Kafka producer has to be silent to lose its session
	// while more than evictAbove are open: longer than any client tries to send the
	// same batch. The leader looks for such sessions every evictEveryMs.
	EvictSilentMs = 5 * 60 * 1000
	evictAbove    = MaxOpenSessions / 10 * 9
	evictEveryMs  = 5_000

	// MaxEndedSessions and EndedRetentionMs bound how long Resolve can answer
	// for a session after its end: for 24 h of entries' time, as long as fewer
	// have ended after it.
	MaxEndedSessions = 100_000
	EndedRetentionMs = 24 * 60 * 60 * 1000

	// MaxSpansPerSession bounds what a session that never raises its low-water
	// mark makes the log remember. A span is at least one batch; batches that
	// follow each other without another session's between them share one. The
	// oldest are forgotten first, as if they were below the mark.
	MaxSpansPerSession = 65_536

	// MaxSpansPerImplicit is the same bound for Kafka's producers, which send
	// no mark and have at most five batches in flight.
	MaxSpansPerImplicit = 64

	// MaxSpans bounds what all sessions of a log make it remember together, at
	// 24 bytes each. Beyond it a session that appends forgets its own oldest
	// span, but keeps MinSpansPerSession.
	MaxSpans           = 4 << 20
	MinSpansPerSession = 64

	// MaxPastEpochs bounds the number of ended epochs of a session for which
	// Resolve can distinguish "never" from "forgotten".
	MaxPastEpochs = 64

	// maxEmptyEpochs bounds how many epochs without records of a log end while its disks take only
	// trims, with one leader: some 150 bytes each.
	maxEmptyEpochs = 1_000

	// MaxLeaseMs bounds how long a silent session stays open, and is what
	// Kafka's producers get: they have no keep-alive.
	MaxLeaseMs = 24 * 60 * 60 * 1000

	// MaxHolds bounds the holds of a log, and MaxHoldLeaseMs how long one may stay
	// without a sign of life, if it has a lease. Principals have no shares of them: who
	// may set a hold of a log may release any of it, so nobody keeps its places from
	// others, and those of other logs are not taken.
	MaxHolds       = 64
	MaxHoldLeaseMs = 30 * 24 * 60 * 60 * 1000

	// MaxConfigBytes bounds the text of a Configure command.
	MaxConfigBytes = 64 << 10

	// MaxFastForward bounds where a trim may move the end of a log, so that
	// offsets never overflow: 2^62 more remain above it.
	MaxFastForward record.Offset = 1 << 62

	// TickMs is how far apart calls of Tick are meant to be. Twice that
	// without a call is taken for a pause of the process, not for silence of
	// the clients, and counts as one tick.
	TickMs = 50

	// maxExpiredAtOnce bounds the expiry commands of one tick, so that a
	// hundred thousand leases that run out together do not hold up appends.
	maxExpiredAtOnce = 256
)

// Limits are those of one log that a test may make smaller, so that runs come near them. All
// replicas of a log have the same: what a table forgets is a function of the entries and of these.
type Limits struct {
	SpansPerSession  int    // MaxSpansPerSession
	SpansPerImplicit int    // MaxSpansPerImplicit
	Spans            int    // MaxSpans
	LeastSpans       int    // MinSpansPerSession
	PastEpochs       int    // MaxPastEpochs
	Uncovered        uint64 // MaxUncovered
	Hashed           int    // MaxHashed
	Attached         int    // maxAttached
	EntryTarget      int    // record.EntryTargetBytes
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		SpansPerSession: MaxSpansPerSession, SpansPerImplicit: MaxSpansPerImplicit, Spans: MaxSpans, LeastSpans: MinSpansPerSession,
		PastEpochs: MaxPastEpochs, Uncovered: MaxUncovered, Hashed: MaxHashed, Attached: maxAttached, EntryTarget: record.EntryTargetBytes,
	}
}
