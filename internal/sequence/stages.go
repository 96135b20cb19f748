package sequence

import "time"

// Stages breaks down the time of an append on the node that leads its log. The times follow each
// other and add up to the time from Arrived until the append had committed; Acks are concurrent.
// The caller requests them by setting Append.Stages; they are filled in when the append is
// answered without a refusal.
type Stages struct {
	Arrived time.Time // at the log's replica
	Times
	// Proposed is how long after Arrived the entry was sent to the other replicas.
	Proposed time.Duration
	Acks     []Ack // acknowledgements of all other replicas
}

// Times are the durations of the stages of an append, in order.
type Times struct {
	Queue    time.Duration // until the replica's loop took the request
	Batch    time.Duration // until the group write with its entry began
	Write    time.Duration // until the write was in the file
	Sync     time.Duration // until the write was durable here
	Replicas time.Duration // until a majority of replicas had the entry
}

// Total returns the sum of the stages.
func (t Times) Total() time.Duration { return t.Queue + t.Batch + t.Write + t.Sync + t.Replicas }

// Ack is another replica's acknowledgement of the entry of an append.
type Ack struct {
	Replica uint64
	Node    string // of the replica; the core leaves it empty
	// Missing is set if it had not arrived when the append committed.
	Missing bool
	After   time.Duration // since Stages.Proposed
}
