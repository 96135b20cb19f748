package runtime

import (
	"slices"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/tail"
)

// Peers calls done once, from any goroutine, with all replicas as their leader knows them, or
// with none if this replica does not lead. done must not block.
func (r *Replica) Peers(done func([]core.Peer)) *record.Refusal {
	return r.Do(func(c *core.Core) {
		peers := c.Group.Peers()
		if !slices.ContainsFunc(peers, func(p core.Peer) bool { return !p.Known }) {
			done(peers)
			return
		}
		// A lagging follower is behind the entries in memory, and the loop must not wait for the disk.
		r.running.Go(func() {
			for i := range peers {
				if p := &peers[i]; !p.Known {
					p.End = r.endOf(p.Match)
				}
			}
			done(peers)
		})
	})
}

// endOf reads the end of the log as of an entry. It returns 0 if that cannot be read.
func (l *loop) endOf(index uint64) record.Offset {
	frames, err := l.log.Entries(index, index+1, 0)
	if err != nil || len(frames) == 0 {
		return 0
	}
	e, err := tail.Describe(tail.EntriesOf(frames[:1])[0], frames[0].CRC, frames[0].First, frames[0].Time)
	if err != nil {
		return 0
	}
	return e.End
}
