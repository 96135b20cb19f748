package core

import (
	"strandline.dev/internal/replica/core/lagging"
	"strandline.dev/internal/sequence"
)

// Limits are those that a test may make smaller, so that runs come near them.
type Limits struct {
	Table    sequence.Limits
	Message  uint64 // messageBytes
	InFlight uint64 // inFlightBytes
	Window   int    // windowBytes
	Queued   int    // maxQueuedBytes
	Feed     lagging.Limits
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		Table: sequence.DefaultLimits(), Message: messageBytes, InFlight: inFlightBytes, Window: windowBytes, Queued: maxQueuedBytes,
		Feed: lagging.DefaultLimits(),
	}
}

// Limits of a core, and why.
const (
	// messageBytes of entries, or one entry, are in one message.
	messageBytes = 1 << 20

	// maxDrains bounds the drains of the queue that are not on this disk yet: one
	// syncing, one forming. More only makes the entries smaller (measured: -40 %).
	maxDrains = 2

	// windowBytes bounds the appends uncommitted at once across slow links: a
	// gigabit for half a second.
	windowBytes = 64 << 20

	// inFlightBytes bounds what is on its way to one follower.
	inFlightBytes = 64 << 20

	// highLatencyMillis between a write here and its commit make a link slow: a
	// follower's disk alone seldom takes so long.
	highLatencyMillis = 5

	// maxQueuedBytes bounds the appends that wait for their turn. The gRPC port
	// holds back before; this is for programs that embed a node.
	maxQueuedBytes = 256 << 20

	// TickMillis is the length of a tick.
	TickMillis = 50

	// A follower that hears nothing for 500 to 1000 ms starts an election; it hears of
	// an idle leader every 100 ms.
	electionTicks    = 10
	heartbeatTicks   = 2
	firstLeaderTicks = 6
	// idleAfter ticks in which nothing happened the log is idle: only every
	// IdleEvery-th tick is still one. Ten seconds, and two ticks a second: a
	// thousand idle logs then cost what a hundred did. Whatever happens wakes
	// all replicas up, the loss of a node too, so that an idle log gets a new
	// leader as fast as a busy one unless a disk dies silently under its leader.
	idleAfter = 200
	IdleEvery = 10
	// idleMillis without a new entry make a log release memory.
	idleMillis = 10_000
)
