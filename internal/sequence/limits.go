package sequence

import "strandline.dev/internal/record"

// Limits of one log's sessions. Each is finite, so the memory for clients that never return is
// bounded.
const (
	// MaxOpenSessions bounds the open sessions. At the limit a new one is refused as Busy until
	// others end.
	MaxOpenSessions = 100_000

	// EvictSilentMs is how long a Kafka producer must be silent to lose its session while more than
	// evictAbove are open: longer than any client tries to send the same batch. The leader searches
	// for such sessions every evictEveryMs.
	EvictSilentMs = 5 * 60 * 1000
	evictAbove    = MaxOpenSessions / 10 * 9
	evictEveryMs  = 5_000

	// MaxEndedSessions and EndedRetentionMs bound how long Resolve can answer for a session after
	// its end: for 24 h of the entries' time, as long as fewer sessions have ended since.
	MaxEndedSessions = 100_000
	EndedRetentionMs = 24 * 60 * 60 * 1000

	// MaxSpansPerSession bounds how many spans the log remembers for a session that never raises its
	// low-water mark. A span is at least one batch; consecutive batches without a batch of another
	// session between them share one. The oldest are forgotten first, as if they were below the
	// mark.
	MaxSpansPerSession = 65_536

	// MaxSpansPerImplicit is the same limit for Kafka's producers, which send no mark and have at
	// most five batches in flight.
	MaxSpansPerImplicit = 64

	// MaxSpans bounds the spans of all sessions of a log, at 24 bytes each. Beyond it, a session
	// that appends forgets its own oldest span, but keeps MinSpansPerSession.
	MaxSpans           = 4 << 20
	MinSpansPerSession = 64

	// MaxPastEpochs bounds the number of ended epochs of a session for which
	// Resolve can distinguish "never" from "forgotten".
	MaxPastEpochs = 64

	// maxEmptyEpochs bounds how many epochs without records can end under one leader while the disks
	// of a log accept only trims: each takes about 150 bytes.
	maxEmptyEpochs = 1_000

	// MaxLeaseMs bounds how long a silent session stays open. Kafka's producers, which have no
	// keep-alive, get this lease.
	MaxLeaseMs = 24 * 60 * 60 * 1000

	// MaxHolds bounds the holds of a log, and MaxHoldLeaseMs the lease of a hold. The leader
	// refuses a new hold of a principal that has as many as can still be set, so a principal has at
	// most half; the table does not check accepted holds again.
	MaxHolds       = 64
	MaxHoldLeaseMs = 30 * 24 * 60 * 60 * 1000

	// MaxWriterLeaseMs bounds how long the holder of the writer lease may stay without a sign of
	// life.
	MaxWriterLeaseMs = 60 * 60 * 1000

	// MaxConfigBytes bounds the text of a Configure command.
	MaxConfigBytes = 64 << 10

	// MaxFastForward bounds the offset to which a trim may move the end of a log, so that offsets
	// never overflow: 2^62 more remain above it.
	MaxFastForward record.Offset = 1 << 62

	// TickMs is the intended interval between calls of Tick.
	TickMs = 50

	// maxExpiredAtOnce bounds the expiry commands of one tick, so that a hundred thousand leases
	// that run out together do not delay appends.
	maxExpiredAtOnce = 256
)

// Limits are limits of one log that a test may lower, so that runs reach them. All replicas of a
// log have the same: the data that a table forgets is a function of the entries and the limits.
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

// DefaultLimits returns the limits used in production.
func DefaultLimits() Limits {
	return Limits{
		SpansPerSession: MaxSpansPerSession, SpansPerImplicit: MaxSpansPerImplicit, Spans: MaxSpans, LeastSpans: MinSpansPerSession,
		PastEpochs: MaxPastEpochs, Uncovered: MaxUncovered, Hashed: MaxHashed, Attached: maxAttached, EntryTarget: record.EntryTargetBytes,
	}
}
