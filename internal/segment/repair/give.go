package repair

import (
	"fmt"

	"strandline.dev/internal/segment"
)

// Give takes those of frames that are wanted and proven to belong to this log, and returns how
// many. The frames are consecutive entries of another replica's log (the giver), which knows that
// the entries up to committed are committed.
//
// The log of another replica may differ from this one in uncommitted entries: its entry at an
// index need not be the entry that was here. Two histories must not be mixed, because Raft
// assumes that an entry here implies all entries before it. The proofs rely on two properties of
// Raft. Log matching: (index, term) identifies an entry and all before it. Leader completeness: a
// committed entry precedes every later entry that takes effect.
//
// Each of these proves that an entry is the one that was here:
//
//   - It is committed there, and the entry that was here was committed, too. An
//     entry that is here, which the giver also has and knows to be committed, is
//     committed together with all before it.
//   - Its frame's header is here, and has the same term and CRC.
//   - The entry that follows the gap has its term: the leader of a term makes one
//     entry for an index, and never withdraws it.
//   - It is followed, within frames, by an entry that is here or has been proven.
//     Therefore one more entry than wanted is requested.
//
// That an entry is committed there proves nothing if nothing is known of the entry that was here:
// that one may have been a different one. There is one exception. If nothing is known of the
// entries from that index to the end of the log, and all entries before it are known to be
// committed, the given entry is taken: an entry here that differed can never take effect, whoever
// was told of it. Nothing before it prevents this, since the lost entries may have truncated all
// that was not committed.
//
// ErrNotRepairable means that the entries committed by other replicas are not those that are
// here. The entries behind them never took effect, so no other replica needs to have the missing
// ones. Any other error is an error of the disk.
func (m *Repairer) Give(frames []segment.Entry, committed uint64) (taken int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil {
		return 0, m.done
	}
	proven, lost := m.proof.prove(frames, committed)
	for from := 0; from < len(frames); {
		to := from
		for to < len(frames) && proven[to] && (to == from || frames[to].Index == frames[to-1].Index+1) {
			to++
		}
		if to == from {
			from++
			continue
		}
		n, err := m.stock.take(frames[from:to])
		taken += n
		if err != nil {
			return taken, fmt.Errorf("repair log in %s: %w", m.dir.Path, err)
		}
		from = to
	}
	if err := m.forsaken(lost); err != nil {
		return taken, fmt.Errorf("repair log in %s: %w", m.dir.Path, err)
	}
	return taken, nil
}
