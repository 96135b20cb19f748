package sequence

import "time"

// Stages are where the time of an append went on the node that leads its log. Times follow
// each other and add up to the time from Arrived until the append had committed; Acks run
// beside them. The owner of an Append asks for them by giving it some to be filled in, which
// has been done when the append is answered without a refusal.
type Stages struct {
	Arrived time.Time // at the log's replica
	Times
	// Proposed is how long after Arrived the entry was sent to the other replicas.
	Proposed time.Duration
	Acks     []Ack // of all other replicas
}

// Times are the stages of an append, in their order.
type Times struct {
	Queue    time.Duration // until the loop of the replica took it
	Batch    time.Duration // until the group write that has its entry began
	Write    time.Duration // until that was in the file
	Sync     time.Duration // until that was durable here
	Replicas time.Duration // until a majority of replicas had it
}

// Total is all of them.
func (t Times) Total() time.Duration { return t.Queue + t.Batch + t.Write + t.Sync + t.Replicas }

// Ack is another replica's acknowledgement of the entry of an append.
type Ack struct {
	Replica uint64
	Node    string // of the replica; the core leaves it empty
	// Missing: it had not come when the append committed.
	Missing bool
	After   time.Duration // since Stages.Proposed
}
