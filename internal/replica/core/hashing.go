package core

import (
	"errors"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/sequence"
)

// hashing decides when committed batches are hashed for the log's digest. They are hashed outside
// the loop, in pieces, and only if this replica leads and the log is in use, so that followers
// need not read batches again.
type hashing struct {
	proposer *proposer
	group    *group
	round    *round
	every    uint64 // minimum bytes of a piece
	busy     bool   // a piece is in progress
	pause    int    // ticks until the next piece may be requested, since the last one failed
	misses   int    // consecutive pieces that failed
	tries    int    // the most recent of them, which failed while something waited
}

const (
	// hashTries is how often in a row a piece may fail while something waits for it.
	hashTries = 8
	// hashDoublings is how often the pause between two attempts is doubled, starting from one tick.
	hashDoublings = 8
	// hashWait bounds that pause, in ticks, while something waits.
	hashWait = 16
)

// ask requests the next piece.
func (h *hashing) ask() {
	from := h.proposer.sequencer.HashedTo()
	if h.pause > hashWait && h.waited(from) {
		h.pause = hashWait
	}
	if h.busy || h.pause > 0 || h.group.failed != nil {
		return
	}
	bytes := h.proposer.sequencer.Unhashed()
	if bytes >= h.every || bytes > 0 && !h.proposer.covered && h.group.storage.table.Start() > from {
		h.busy, h.round.out.Hash = true, HashRange{from, h.group.storage.table.End()}
	}
}

// Hashed takes the contents of some of the batches that an Output requested, from the first on,
// or the error if there are none.
func (h *hashing) Hashed(from record.Offset, batches []record.HashedBatch, err error) {
	h.busy = false
	if err == nil {
		err = h.proposer.sequencer.Hashed(from, batches)
	}
	if err == nil {
		h.misses, h.tries = 0, 0
		return
	}
	if h.tries++; !h.waited(from) {
		h.tries = 0
	}
	// Nothing may wait forever for batches that cannot be read.
	if from == h.proposer.sequencer.HashedTo() && (errors.Is(err, segment.ErrTrimmed) || h.tries >= hashTries) {
		h.misses, h.tries = 0, 0
		h.group.logger.Error("batches that the digest does not cover are gone or cannot be read; the digest restarts", "offset", from, "error", err)
		h.proposer.sequencer.RenewDigest()
		return
	}
	h.pause = 1 << min(h.misses, hashDoublings)
	if h.misses++; h.tries > 0 {
		h.pause = min(h.pause, hashWait)
	}
	h.group.logger.Warn("batches could not be hashed for the digest; trying again", "offset", from, "pause_ticks", h.pause, "error", err)
}

// waited reports whether something waits for the batches from an offset on: appends, or the
// removal of trimmed segments.
func (h *hashing) waited(from record.Offset) bool {
	return h.proposer.sequencer.Behind() || h.group.storage.table.Start() > from
}

// tick records that TickMillis have passed.
func (h *hashing) tick() {
	h.pause = max(h.pause-1, 0)
	h.proposer.covered = false
}

// Digest returns the tree of what has been applied. The caller must not change it.
func (h *hashing) Digest() *digest.Tree { return sequence.DigestOf(h.group.storage.table) }
