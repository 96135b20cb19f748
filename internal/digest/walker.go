package digest

import (
	"fmt"

	"strandline.dev/internal/record"
)

// Walker follows a log by its entries, in order and complete, and hashes each batch. It compares
// the hash with the content in a later entry, and at the end adds the batches for which no entry
// has the content yet.
type Walker struct {
	Tree // as the entries define it, without leaves behind limit

	limit record.Offset
	visit func(leaf Hash) // may be nil
	// hashed are the batches seen that are not leaves yet, in order.
	hashed []hashedBatch
	// awaited is the size in bytes of the batches that are not leaves and precede the first entry
	// given: later entries have their contents.
	awaited uint64
	reached record.Offset // end of the last batch that ends at limit or before
	// over is set if the digest restarts behind limit: no entry has the contents of earlier batches.
	over bool
}

type hashedBatch struct {
	record.HashedBatch
	index uint64 // index of its entry
}

// NewWalker returns a walker that continues the tree t with the batches that end at limit or
// before. It must be given the entries from the one that holds offset t.Covered on, or, if behind
// is set, from t.End on. If visit is not nil, it is called with each leaf.
func NewWalker(t *Tree, behind bool, limit record.Offset, visit func(leaf Hash)) *Walker {
	w := &Walker{Tree: t.Clone(), limit: limit, visit: visit, awaited: t.Uncovered}
	if !behind {
		w.End, w.Uncovered, w.awaited = w.Covered, 0, 0
	}
	w.reached = w.End
	return w
}

// ForgedError reports a batch that is not the one that was appended, although all checksums
// match.
type ForgedError struct {
	Index      uint64 // of its entry
	First, End record.Offset
}

func (e *ForgedError) Error() string {
	return fmt.Sprintf("the batch of offsets [%d, %d) in entry %d does not have the content that was appended", e.First, e.End, e.Index)
}

// Add adds the next entry, and returns the batches that turn out to be forged. The tree has them
// as they were appended.
func (w *Walker) Add(e *record.Entry, index uint64) (forged []*ForgedError) {
	switch {
	case !e.Begins, w.Begun && w.From == e.First: // the tree may end within that entry
	case e.First >= w.limit:
		w.over = true
	default:
		w.Tree = Begin(e.First)
		w.hashed, w.awaited, w.reached = nil, 0, e.First
	}
	if w.over {
		return nil
	}
	for h := range e.HashedBatches {
		if !w.Begun || h.First < w.Covered {
			continue // already a leaf
		}
		w.Uncovered -= min(uint64(h.Size), w.Uncovered)
		if len(w.hashed) == 0 || h.First < w.hashed[0].First {
			w.awaited -= min(uint64(h.Size), w.awaited)
		}
		for len(w.hashed) > 0 && w.hashed[0].First <= h.First {
			if own := &w.hashed[0]; own.HashedBatch != h {
				forged = append(forged, &ForgedError{own.index, own.First, own.End()})
			}
			w.hashed = w.hashed[1:]
		}
		w.Covered = h.End()
		w.leaf(&h)
	}
	first, i := e.First, 0
	for p, b := range e.All {
		if p.End > w.End { // a tree may end within an entry
			if w.Begun && len(b) >= record.BatchHeaderSize {
				m := e.Meta(i)
				w.hashed = append(w.hashed, hashedBatch{record.HashedBatch{First: first, Count: m.Count, Size: m.Size, Content: b.Content()}, index})
				w.Uncovered += uint64(m.Size)
			}
			if p.End <= w.limit {
				w.reached = p.End
			}
		}
		first = p.End
		i++
	}
	w.End = max(w.End, e.End(), skipped(e))
	w.reached = max(w.reached, min(skipped(e), w.limit))
	if w.Uncovered == 0 {
		w.Covered = w.End
	}
	return forged
}

func (w *Walker) leaf(h *record.HashedBatch) {
	if h.End() > w.limit {
		return
	}
	leaf := Leaf(h.First, h.Content)
	w.add(leaf)
	if w.visit != nil {
		w.visit(leaf)
	}
}

// Done reports whether all batches up to limit were added and compared with their contents.
func (w *Walker) Done() bool {
	return w.over || w.End >= w.limit && w.awaited == 0 && (len(w.hashed) == 0 || w.hashed[0].First >= w.limit)
}

// Compared reports whether all batches in the tree that Finish returns were compared with their
// contents in entries.
func (w *Walker) Compared() bool { return len(w.hashed) == 0 || w.hashed[0].End() > w.limit }

// Finish adds the batches up to limit that are not leaves yet, and returns the tree, which ends
// with the last of them. It returns an error if the content of a batch that precedes the entries
// given has not appeared. If the digest restarts behind limit, such a content never appears, and
// Finish returns a tree without a digest.
func (w *Walker) Finish() (Tree, error) {
	if w.awaited > 0 && w.over {
		return Tree{Covered: w.reached, End: w.reached}, nil
	}
	if w.awaited > 0 {
		return Tree{}, fmt.Errorf("%w: no entry has the contents of %d bytes of batches from offset %d on, which are not stored", ErrState, w.awaited, w.Covered)
	}
	for i := range w.hashed {
		w.leaf(&w.hashed[i].HashedBatch)
	}
	w.hashed = nil
	t := w.Clone()
	t.Covered, t.End, t.Uncovered = w.reached, w.reached, 0
	return t, nil
}
