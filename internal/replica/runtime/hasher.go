package runtime

import (
	"runtime"
	"sync/atomic"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
)

// pauseBytes are hashed before others get the processor, some 40 us.
const pauseBytes = 64 << 10

// hasher hashes batches for the digest, beside the loop.
type hasher struct{ loop *loop }

// hash hashes a piece of what the core asks for.
func (r hasher) hash(h core.HashRange) {
	batches, err := r.batches(h)
	if err != nil {
		r.loop.damaged(err)
	}
	r.loop.post(input{do: func(c *core.Core) { c.Hashed(h.From, batches, err) }})
}

// batches returns the contents of the batches of about pieceBytes from h.From on. They are applied, so they
// are in memory or stored.
func (r hasher) batches(h core.HashRange) (batches []record.HashedBatch, err error) {
	frames, ok := r.loop.tail.Read(nil, h.From, h.Until, pieceBytes)
	if !ok {
		cursor, err := r.loop.log.NewCursor(h.From)
		if err != nil {
			return nil, err
		}
		defer cursor.Close()
		for len(frames) == 0 || frames[len(frames)-1].End() <= h.From { // entries without records may come first
			if frames, err = cursor.Next(h.Until, pieceBytes); err != nil {
				return nil, err
			}
			if len(frames) == 0 {
				return nil, errCommittedMissing
			}
		}
	}
	bytes := 0
	for i := range frames {
		if frames[i].Count == 0 {
			continue
		}
		e, err := record.ParseEntry(frames[i].Payload)
		if err != nil {
			return nil, err
		}
		first, k := e.First, 0
		for p, b := range e.All {
			if p.End > h.From {
				batches = append(batches, record.HashedBatch{First: first, Count: e.Meta(k).Count, Size: uint32(p.Size), Content: b.Content()})
				if bytes += p.Size; bytes >= pauseBytes {
					bytes = 0
					runtime.Gosched()
				}
			}
			first = p.End
			k++
		}
	}
	if len(batches) == 0 {
		return nil, errCommittedMissing
	}
	return batches, nil
}

// applied is what others than the loop know of what is applied.
type applied struct {
	index   atomic.Uint64 // of the newest entry
	covered atomic.Int64  // up to where the digest covers the log
	behind  atomic.Uint64 // bytes of the batches that it does not cover
}

func (a *applied) publish(c *core.Core) {
	a.index.Store(c.Final())
	a.covered.Store(int64(c.Digest().Covered))
	a.behind.Store(c.Digest().Uncovered)
}

// Uncovered is how many bytes of committed batches the digest does not cover yet.
func (a *applied) Uncovered() uint64 { return a.behind.Load() }

func (a *applied) appliedTo() uint64 { return a.index.Load() }
