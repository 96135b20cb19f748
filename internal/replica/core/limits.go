package core

import (
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/sequence"
)

// Limits are limits that a test may lower, so that runs reach them.
type Limits struct {
	Table    sequence.Limits
	Message  uint64 // messageBytes
	InFlight uint64 // inFlightBytes
	Window   int    // windowBytes
	Queued   int    // maxQueuedBytes
	Feed     lagging.Limits
	Idle     int   // idleAfter
	Release  int64 // idleMillis
}

// DefaultLimits returns the limits used in production.
func DefaultLimits() Limits {
	return Limits{
		Table: sequence.DefaultLimits(), Message: messageBytes, InFlight: inFlightBytes, Window: windowBytes, Queued: maxQueuedBytes,
		Feed: lagging.DefaultLimits(), Idle: idleAfter, Release: idleMillis,
	}
}

// Limits of a core, and why.
const (
	// messageBytes bounds the entries of one message, unless it has a single entry.
	messageBytes = 1 << 20

	// maxBundles bounds the bundles that are not on this disk yet: one is being synced, one is
	// forming. More would only make the entries smaller (measured: -40 %).
	maxBundles = 2

	// windowBytes bounds the uncommitted appends across slow links: one gigabit per second for half
	// a second.
	windowBytes = 64 << 20

	// inFlightBytes bounds the bytes in flight to one follower.
	inFlightBytes = 64 << 20

	// highLatencyMillis is the time between a write here and its commit from which on latency is
	// high: a follower's disk alone rarely takes so long.
	highLatencyMillis = 5

	// maxQueuedBytes bounds the waiting appends. The gRPC port applies backpressure before; this
	// limit is for programs that embed a node.
	maxQueuedBytes = 256 << 20

	// TickMillis is the length of a tick.
	TickMillis = 50

	// A follower that receives nothing for 500 to 1000 ms starts an election. An idle leader sends a
	// heartbeat every 100 ms.
	electionTicks    = 10
	heartbeatTicks   = 2
	firstLeaderTicks = 6
	// After idleAfter ticks without activity, ten seconds, the log is idle: its ticks have the length
	// idleTickMillis. Any activity wakes all replicas, including the loss of a node, so an idle log
	// gets a new leader as fast as a busy one, unless the disk of its leader fails silently.
	idleAfter      = 200
	idleTickMillis = 10 * TickMillis
	// idleMillis is the time without a new entry after which a log releases memory. Until then a log
	// that is alone has a tick every releaseMillis, in case the node's memory is short.
	idleMillis    = 10_000
	releaseMillis = 1_000
)
