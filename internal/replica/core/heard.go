package core

// heard is when a leader last heard of its followers, in its own ticks. Raft's flag
// does not do: Raft clears it once in an election timeout, so that every follower
// counts as inactive until the next heartbeat is answered.
type heard struct {
	ticks uint64
	last  map[uint64]uint64 // by replica
}

func (h *heard) tick() { h.ticks++ }

func (h *heard) from(replica uint64) {
	if h.last == nil {
		h.last = map[uint64]uint64{}
	}
	h.last[replica] = h.ticks
}

// lately reports whether a replica was heard of within an election timeout.
func (h *heard) lately(replica uint64) bool {
	last, ever := h.last[replica]
	return ever && h.ticks-last <= electionTicks
}

// reset is for a replica that begins to lead, or ends.
func (h *heard) reset() { clear(h.last) }
