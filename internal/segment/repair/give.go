package repair

import (
	"fmt"

	"strandline.dev/internal/segment"
)

// Give takes those of frames that are wanted and proven to belong here, and
// reports how many. The frames are a piece without gaps of one giver's log, of
// which it knows that the entries up to committed are committed.
//
// Others may have gone another way than this replica, in entries that were not
// committed: what they have at an index need not be what was here. Two histories
// must not be put together, for Raft takes it from then on that an entry here
// stands for all in front of it. What can be known follows from two of its
// properties. Log matching: (index, term) names an entry and all in front of it.
// Leader completeness: what is committed is in front of all that ever counts.
//
// Each of these proves that an entry is the one which was here:
//
//   - It is committed there, and so is what was here. An entry that is here,
//     which the giver has too and knows to be committed, is committed with all
//     in front of it.
//   - Its frame's header is here, and has the same term and CRC.
//   - What follows the gap has its term: the leader of a term makes one entry of
//     an index, and never takes it back.
//   - It is followed, in the piece, by an entry that is here or has been proven.
//     That is why one more than wanted is asked for.
//
// That it is committed there, and nothing known of that here, proves nothing:
// what was here may have lost. With one exception. If nothing is known of what
// was here from it on, to the end of the log, it may take that place, in a row
// with what is known to be committed: what was there and differed can never
// count, whomever it was promised to. Nothing in front of it is in the way then,
// since what was lost may have truncated all that was not committed.
//
// ErrNotRepairable: what others have committed is not what is here, so what is here
// behind it never counted, and nobody need have what is missing of it. Any other
// error is one of the disk.
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
