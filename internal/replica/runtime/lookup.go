package runtime

import (
	"slices"

	"strandline.dev/internal/record"
)

// Lookups by time and size look at memory first, like a Reader: see tail.Tail.InMemory.

// OffsetAtTime returns the first offset of the first entry whose time is unixMs or later. If no
// readable entry is, it returns an offset at or beyond the readable end, even one within an entry
// that has not committed: the caller compares it with the end.
func (r *Readable) OffsetAtTime(unixMs int64) (record.Offset, error) {
	for {
		_, inMemory := r.tail.InMemory()
		stored, err := r.log.OffsetAtTime(unixMs)
		if err != nil || stored < inMemory {
			return stored, err
		}
		if o, ok := r.tail.OffsetAtTime(inMemory, unixMs); ok {
			return o, nil
		}
		// What was in memory has been stored between the two steps.
	}
}

// OffsetAtSize returns the smallest first offset of an entry such that the entries from it to end,
// which is readable, hold at most bytes of payload. It returns end if even the last entry is
// larger.
func (r *Readable) OffsetAtSize(bytes int64, end record.Offset) (record.Offset, error) {
	at, left := r.tail.OffsetAtSize(bytes, end)
	if _, inMemory := r.tail.InMemory(); at > inMemory { // not all that is in memory fits
		return at, nil
	}
	return r.log.OffsetAtSize(left, at)
}

// BytesFrom returns, for each of the offsets, the total payload size in bytes of the readable
// entries that begin at it or later.
func (r *Readable) BytesFrom(from ...record.Offset) ([]int64, error) {
	_, end, err := r.Bounds()
	if err != nil {
		return nil, err
	}
	for {
		_, inMemory := r.tail.InMemory()
		last := min(inMemory, end)
		bytes, err := r.log.BytesFrom(append(slices.Clone(from), last)...)
		if err != nil {
			return nil, err
		}
		beyond, known := bytes[len(from)], true
		for i, o := range from {
			kept, ok := r.tail.BytesBetween(max(o, last), end)
			bytes[i], known = max(bytes[i]-beyond, 0)+kept, known && ok
		}
		if known {
			return bytes[:len(from)], nil
		}
		// What was in memory has been stored between the two steps.
	}
}
