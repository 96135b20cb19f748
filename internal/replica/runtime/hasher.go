package runtime

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// pauseBytes is how many bytes are hashed before the processor is yielded: about 40 us.
const pauseBytes = 64 << 10

// hasher hashes batches for the digest, outside the loop.
type hasher struct{ loop *loop }

// hash hashes a piece of the range that the core requests.
func (r hasher) hash(h core.HashRange) {
	batches, err := r.batches(h)
	if err != nil {
		r.loop.damaged(err)
	}
	r.loop.post(input{do: func(c *core.Core) { c.Hashing.Hashed(h.From, batches, err) }})
}

// errDamagedEntry means that the bytes of an entry in memory do not match its checksum, or those
// of a batch the checksum of its producer.
var errDamagedEntry = errors.New("the bytes do not match their checksum")

// batches returns the contents of about pieceBytes of batches from h.From on. They are applied,
// so they are in memory or stored.
//
// Damaged bytes are not hashed: their content would count as correct permanently, and every
// intact copy of the batch as forged; with a different offset or size no replica could apply the
// entry that contains it. Bytes that were damaged in memory may be intact on disk.
func (r hasher) batches(h core.HashRange) ([]record.HashedBatch, error) {
	if frames, ok := r.loop.tail.Read(nil, h.From, h.Until, pieceBytes); ok {
		batches, err := contents(frames, h.From)
		if err == nil {
			return batches, nil
		}
		r.loop.options.Logger.Error("an entry is damaged in memory; the stored entry is hashed for the digest instead", "error", err)
	}
	cursor, err := r.loop.log.NewCursor(h.From)
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	for {
		frames, err := cursor.Next(h.Until, pieceBytes)
		if err != nil {
			return nil, err
		}
		if len(frames) == 0 {
			return nil, errCommittedMissing
		}
		if frames[len(frames)-1].End() > h.From { // entries without records may precede it
			return contents(frames, h.From)
		}
	}
}

// contents returns the contents of the batches in entries that end behind an offset. With an
// error it returns none. Comparing checksums adds a tenth to the cost of hashing, see
// BenchmarkContents.
func contents(frames []segment.Entry, from record.Offset) (batches []record.HashedBatch, err error) {
	bytes := 0
	for i := range frames {
		if frames[i].Count == 0 {
			continue
		}
		if record.Checksum(frames[i].Payload) != frames[i].CRC {
			return nil, fmt.Errorf("entry %d: %w", frames[i].Index, errDamagedEntry)
		}
		e, err := record.ParseEntry(frames[i].Payload)
		if err != nil {
			return nil, err
		}
		first, k := e.First, 0
		for p, b := range e.All {
			if p.End > from {
				if b.Damaged() {
					return nil, fmt.Errorf("entry %d, offset %d: %w", frames[i].Index, first, errDamagedEntry)
				}
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

// applied is the applied state that other goroutines than the loop can see.
type applied struct {
	index   atomic.Uint64 // of the newest entry
	covered atomic.Int64  // offset up to which the digest covers the log
	behind  atomic.Uint64 // bytes of the batches that the digest does not cover
}

func (a *applied) publish(c *core.Core) {
	a.index.Store(c.Applier.Final())
	a.covered.Store(int64(c.Hashing.Digest().Covered))
	a.behind.Store(c.Hashing.Digest().Uncovered)
}

// Uncovered returns how many bytes of committed batches the digest does not cover yet.
func (a *applied) Uncovered() uint64 { return a.behind.Load() }

func (a *applied) appliedTo() uint64 { return a.index.Load() }
