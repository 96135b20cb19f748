package sequence

import "strandline.dev/internal/record"

// MemoryLeft is how much of its memory for the sessions of all logs a node has left;
// less is greater.
type MemoryLeft uint8

const (
	// MemoryAmple: nothing has to be saved.
	MemoryAmple MemoryLeft = iota
	// MemoryTight: Kafka producers that have been silent for EvictSilentMs lose their
	// sessions, and sessions that ended so long ago are forgotten.
	MemoryTight
	// MemoryUsedUp: besides, new sessions are refused, and appends of those that
	// remember more than MinSpansPerSession.
	MemoryUsedUp
)

// What a table takes in memory, on a leader, as BenchmarkSessionMemory measures it.
const (
	bytesOfSession = 370 // with its lease
	bytesOfSpan    = 24
	bytesOfLife    = 200 // of a past epoch, with the room of a queue
)

func noMemoryForSessions() *record.Refusal {
	return record.Refuse(record.Busy, "the node's memory for sessions is used up: end some, or give the node more with --memory")
}
