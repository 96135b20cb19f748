package sequence

import (
	"slices"
	"sort"

	"strandline.dev/internal/record"
)

// spanList is a queue of spans in the order of their sequences. Full chunks are never changed, so
// a clone shares them and is cheap regardless of the number of spans.
//
//	chunks                    recent
//	[skipped|spans] [spans]   [spans, up to two chunks]
type spanList struct {
	chunks [][]span // of chunkSpans each
	skip   int      // number of spans of chunks[0] that were popped
	recent queue[span]
	// cut is how many records of the first span are forgotten. Cutting it in its chunk would change
	// the clones.
	cut uint64
}

const chunkSpans = 128

// clone returns a list that changes independently of this one.
func (l *spanList) clone() spanList {
	c := *l
	c.chunks = slices.Clip(c.chunks) // so that neither list appends to the other's
	c.recent.ring = slices.Clone(c.recent.ring)
	return c
}

func (l *spanList) len() int { return len(l.chunks)*chunkSpans - l.skip + l.recent.len() }

// at returns the i-th span from the front.
func (l *spanList) at(i int) span {
	p := *l.stored(i)
	if i == 0 {
		p.first += record.Sequence(l.cut)
		p.offset += record.Offset(l.cut)
		p.count -= l.cut
	}
	return p
}

func (l *spanList) stored(i int) *span {
	i += l.skip
	if k := i / chunkSpans; k < len(l.chunks) {
		return &l.chunks[k][i%chunkSpans]
	}
	return l.recent.at(i - len(l.chunks)*chunkSpans)
}

// extend makes the last span longer.
func (l *spanList) extend(count uint64) { l.recent.at(l.recent.len() - 1).count += count }

func (l *spanList) pushBack(p span) {
	if l.recent.len() == 2*chunkSpans {
		chunk := make([]span, chunkSpans)
		for i := range chunk {
			chunk[i] = l.recent.popFront()
		}
		l.chunks = append(l.chunks, chunk)
	}
	l.recent.pushBack(p)
}

func (l *spanList) popFront() {
	l.cut = 0
	if len(l.chunks) == 0 {
		l.recent.popFront()
		return
	}
	if l.skip++; l.skip == chunkSpans {
		l.chunks, l.skip = slices.Clone(l.chunks[1:]), 0 // a clone, to release the chunk
	}
}

// cutFront forgets the first span up to a sequence inside it.
func (l *spanList) cutFront(mark record.Sequence) { l.cut += uint64(mark - l.at(0).first) }

// find returns the span that contains the sequence.
func (l *spanList) find(sequence record.Sequence) (p span, found bool) {
	i := sort.Search(l.len(), func(i int) bool { return l.stored(i).end() > sequence })
	if i == l.len() || l.at(i).first > sequence {
		return span{}, false
	}
	return l.at(i), true
}
