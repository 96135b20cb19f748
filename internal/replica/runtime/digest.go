package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// A snapshot contains the tree of the digest at the start of its segment, which trails that place
// a little. So the tree at any place is computed from that of an earlier snapshot, or of a place
// that was requested recently, and the entries stored from there on: about one segment, and the
// bytes by which the digest trails the end. The entries read are compared with the contents in
// later entries; batches whose content is in none yet are added nevertheless.

// digests computes the digests of a log.
type digests struct {
	readable *Readable
	turn     chan struct{} // a semaphore: held while a digest is computed
	// recent are the trees computed last. A search for a difference requests offsets that are ever
	// closer to each other, and so reads less for each. Guarded by turn.
	recent []place
}

// place is a tree, and the position of the entries that continue it.
type place struct {
	digest.Tree
	index  uint64 // index of the first of these entries; 0: not looked up yet
	behind bool   // index is that of the first entry behind the tree; the entries from Tree.Covered to there are trimmed
	// compared is set if all batches read were compared with their contents in entries.
	compared bool
	next     uint64 // for the place of a snapshot: index of the first entry behind the snapshot
}

// begin returns the offset from which on the tree of the place can be continued.
func (p *place) begin() record.Offset {
	if p.behind {
		return p.End
	}
	return p.Covered
}

const recentTrees = 64 // each has at most one KiB

// Digest returns the tree over the committed records below at, in whole batches. A replica
// computes one at a time.
func (d *digests) Digest(ctx context.Context, at record.Offset) (t digest.Tree, err error) {
	err = d.computing(ctx, func() (err error) {
		t, err = d.compute(ctx, at)
		return err
	})
	return t, err
}

func (d *digests) compute(ctx context.Context, at record.Offset) (digest.Tree, error) {
	p, err := d.snapshotBelow(at)
	if err != nil {
		return digest.Tree{}, err
	}
	for _, r := range d.recent {
		if r.begin() > p.begin() && r.begin() <= at {
			p = r
		}
	}
	if p, err = d.follow(ctx, p, at, nil); err != nil {
		return digest.Tree{}, err
	}
	if p.compared { // otherwise what was read may turn out to be damaged, and be repaired
		if len(d.recent) == recentTrees {
			d.recent = slices.Delete(d.recent, 0, 1)
		}
		d.recent = append(d.recent, p)
	}
	return p.Clone(), nil
}

// Prove returns the proof that the record at an offset is in the log, under the digest at the
// offset at, and the tree of that digest.
func (d *digests) Prove(ctx context.Context, offset, at record.Offset) (p digest.Proof, t digest.Tree, err error) {
	err = d.computing(ctx, func() (err error) {
		p, t, err = d.prove(ctx, offset, at)
		return err
	})
	return p, t, err
}

func (d *digests) prove(ctx context.Context, offset, at record.Offset) (digest.Proof, digest.Tree, error) {
	var p digest.Proof
	places, err := d.snapshotsBelow(at)
	if err != nil {
		return p, digest.Tree{}, err
	}
	whole, err := d.follow(ctx, places[len(places)-1], at, nil)
	if err != nil {
		return p, digest.Tree{}, err
	}
	if !whole.Begun || offset < whole.From || offset >= whole.End {
		return p, digest.Tree{}, record.Refuse(record.Precondition, "the digest at offset %d covers the records of [%d, %d), not the record at %d", at, whole.From, whole.End, offset)
	}
	places = sinceBegun(places, whole.From)
	k := len(places) - 1
	for k >= 0 && places[k].begin() > offset {
		k--
	}
	if k < 0 {
		return p, digest.Tree{}, d.readable.NewReader(offset).trimmed(max(whole.From, d.readable.log.StartOffset()))
	}
	p.Batches = whole.Batches
	if offset > whole.From { // at From the tree is still that of the previous digest
		before, err := d.follow(ctx, places[k], offset, nil)
		if err != nil {
			return p, digest.Tree{}, err
		}
		p.Number = before.Batches
	}
	if p.Batch, err = d.batchAt(offset); err != nil {
		return p, digest.Tree{}, err
	}
	places = append(places, whole)
	trees := make([]digest.Tree, len(places))
	for i := range places {
		trees[i] = places[i].Tree
	}
	read := map[int][]digest.Hash{}
	p.Path, err = digest.Path(p.Number, trees, func(i int) ([]digest.Hash, error) {
		leaves, known := read[i]
		if !known {
			if _, err := d.follow(ctx, places[i], trees[i+1].Covered, func(h digest.Hash) { leaves = append(leaves, h) }); err != nil {
				return nil, err
			}
			if extra := len(leaves) - int(trees[i+1].Batches-trees[i].Batches); extra > 0 {
				leaves = leaves[extra:] // leaves of the previous digest
			}
			read[i] = leaves
		}
		return leaves, nil
	})
	return p, whole.Tree, err
}

// sinceBegun returns the places of the digest that begins at an offset, preceded by the newest
// place before them, without its tree: entries from there up to the offset belong to no digest,
// or to one that was given up.
func sinceBegun(places []place, from record.Offset) []place {
	n := slices.IndexFunc(places, func(p place) bool { return p.Begun && p.From == from })
	if n < 0 {
		n = len(places)
	}
	if n == 0 {
		return places
	}
	p := &places[n-1]
	*p = place{Tree: digest.Tree{Covered: p.End, End: p.End}, index: p.next, next: p.next}
	return places[n-1:]
}

// batchAt returns a copy of the batch that contains the record at an offset.
func (d *digests) batchAt(offset record.Offset) (record.Batch, error) {
	reader := d.readable.NewReader(offset)
	defer reader.Close()
	c, err := reader.Next(offset+1, 1)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	for i := range c.Entries {
		e, err := record.ParseEntry(c.Entries[i].Payload)
		if err != nil {
			return nil, reader.refuse(err, c.Start)
		}
		for p, b := range e.All {
			if p.End > offset {
				return slices.Clone(b), nil
			}
		}
	}
	return nil, reader.refuse(errCommittedMissing, c.Start)
}

// computing waits until no other digest of the log is being computed, and calls do. If a trim
// invalidates the computation it is repeated, since its start depends on what is stored.
func (d *digests) computing(ctx context.Context, do func() error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		start := d.readable.log.StartOffset()
		err := do()
		refusal := (*record.Refusal)(nil)
		if !errors.As(err, &refusal) || refusal.Reason != record.OffsetTrimmed || d.readable.log.StartOffset() == start {
			return err
		}
	}
}

// snapshotBelow returns the place of the newest snapshot that is not behind at.
func (d *digests) snapshotBelow(at record.Offset) (found place, err error) {
	indexes, known := d.readable.log.Snapshots(), false
	for len(indexes) > 0 {
		middle := len(indexes) / 2
		p, err := d.placeOf(indexes[middle])
		switch {
		case unusable(err):
			indexes = slices.Delete(indexes, middle, middle+1)
		case err != nil:
			return place{}, err
		case p.begin() <= at:
			found, known, indexes = p, true, indexes[middle+1:]
		default:
			indexes = indexes[:middle]
		}
	}
	if known {
		return found, nil
	}
	return d.first(at)
}

// snapshotsBelow returns the places of all snapshots that are not behind at; at least one.
func (d *digests) snapshotsBelow(at record.Offset) (places []place, err error) {
	for _, index := range d.readable.log.Snapshots() {
		p, err := d.placeOf(index)
		switch {
		case unusable(err):
		case err != nil:
			return nil, err
		case p.begin() <= at:
			places = append(places, p)
		}
	}
	if first, err := d.first(at); err == nil {
		places = slices.Insert(places, 0, first)
	} else if len(places) == 0 {
		return nil, err
	}
	return places, nil
}

// first returns the first place of a log of which nothing was trimmed.
func (d *digests) first(at record.Offset) (place, error) {
	if d.readable.log.StartOffset() > 0 {
		return place{}, record.Refuse(record.StorageFailed, "this replica has no snapshot below offset %d to compute its digest from; another replica has one", at)
	}
	first := d.readable.log.FirstIndex()
	return place{index: first, next: first}, nil
}

func (d *digests) placeOf(index uint64) (place, error) {
	_, data, err := d.readable.log.ReadSnapshot(index)
	if err != nil {
		return place{}, err
	}
	t, err := core.DecodeDigest(data)
	p := place{Tree: t, index: index + 1, next: index + 1}
	if t.Covered < t.End {
		p.index, p.behind = 0, t.Covered < d.readable.log.StartOffset()
		if p.behind {
			p.index = index + 1
		}
	}
	return p, err
}

// unusable reports whether a snapshot cannot be used. The one before it can be used instead, at
// the cost of reading another segment.
func unusable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*segment.CorruptError))
}

// CheckDigests compares all stored batches with their contents in later entries, and the tree of
// each snapshot with the entries before it. It calls forged with the index of each entry that is
// not what was appended. pace is called with the number of bytes to be read next; its error ends
// the check. The error is ErrDigest if the stored entries do not match a snapshot.
func (d *digests) CheckDigests(ctx context.Context, pace func(bytes int) error, forged func(index uint64, reason error)) error {
	var w *digest.Walker
	begin := func(t *digest.Tree) { w = digest.NewWalker(t, true, math.MaxInt64, nil) }
	f := following{Readable: d.readable, pace: pace}
	index, snapshots := f.log.FirstIndex(), f.log.Snapshots()
	if f.log.StartOffset() == 0 {
		begin(&digest.Tree{})
	}
	for {
		if len(snapshots) > 0 && snapshots[0] < index {
			p, err := d.placeOf(snapshots[0])
			same := w != nil && w.Root() == p.Root() && w.Batches == p.Batches && w.Covered == p.Covered
			switch {
			case err != nil && !unusable(err):
				return err
			case err == nil && w != nil && (w.Begun || p.Begun) && !same:
				return fmt.Errorf("up to offset %d, snapshot of entry %d: %w", p.End, snapshots[0], ErrDigest)
			case err == nil && w == nil && snapshots[0]+1 == index:
				begin(&p.Tree)
			}
			snapshots = snapshots[1:]
			continue
		}
		if w == nil { // no tree to compare with up to the next snapshot
			if len(snapshots) == 0 {
				return nil
			}
			index = snapshots[0] + 1
			continue
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
		entries, err := f.piece(index)
		switch {
		case errors.Is(err, segment.ErrTrimmed), errors.As(err, new(*segment.CorruptError)):
			return nil // trimmed, or damage that Scrub reports
		case err != nil:
			return err
		}
		for i := range entries {
			e := &entries[i]
			if e.Index > f.keeper.appliedTo() {
				return nil
			}
			if len(snapshots) > 0 && e.Index > snapshots[0] {
				break
			}
			found, err := walkEntry(w, e)
			if err != nil {
				return err
			}
			for _, x := range found {
				forged(x.Index, x)
			}
			index = e.Index + 1
		}
		if len(entries) == 0 {
			return nil
		}
	}
}

// ErrDigest means that records and their contents were changed together, or that a snapshot was
// changed. Each matches its own checksums, so only another replica can show which one is wrong.
var ErrDigest = errors.New("the stored records do not match the digest")

// following describes how a tree should be continued.
type following struct {
	*Readable
	at    record.Offset          // offset for which the tree is wanted
	visit func(leaf digest.Hash) // may be nil
	pace  func(bytes int) error  // called before each read; may be nil
}

// follow returns the place after continuing p with the stored entries up to at.
func (d *digests) follow(ctx context.Context, p place, at record.Offset, visit func(digest.Hash)) (place, error) {
	f := following{Readable: d.readable, at: at, visit: visit}
	q, err := f.follow(ctx, p)
	for p.behind && visit == nil && errors.Is(err, digest.ErrState) {
		// Some batches that the tree does not cover are trimmed, and no entry may have the contents
		// of the remaining ones yet. These are stored behind an older snapshot.
		older, none := d.snapshotBelow(p.End - 1)
		if none != nil {
			break
		}
		p = older
		q, err = f.follow(ctx, p)
	}
	if err == nil || errors.As(err, new(*record.Refusal)) || ctx.Err() != nil {
		return q, err
	}
	start, _, gone := d.readable.tail.Bounds()
	return q, cmp.Or(gone, d.readable.NewReader(p.begin()).refuse(err, start))
}

func (f following) follow(ctx context.Context, p place) (place, error) {
	w := digest.NewWalker(&p.Tree, p.behind, f.at, f.visit)
	index, err := p.index, error(nil)
	for !w.Done() {
		if index == 0 {
			if index, err = f.indexAt(p.Covered); err != nil {
				return p, err
			}
		}
		if err := f.wait(ctx); err != nil {
			return p, err
		}
		entries, err := f.piece(index)
		if err != nil {
			return p, err
		}
		before := index
		for i := range entries {
			e := &entries[i]
			if e.Index > f.keeper.appliedTo() && e.First >= f.at || w.Done() {
				break
			}
			forged, err := walkEntry(w, e)
			if err != nil {
				return p, err
			}
			if len(forged) > 0 {
				f.logger.Error("a stored entry differs from the one appended, although its checksums match; the next scrub repairs it", "error", forged[0])
				return p, record.Refuse(record.Corrupt, "the stored record differs from the one appended: %v", forged[0])
			}
			if e.First < f.at {
				p.index = e.Index // the continuation may be in the same entry
			}
			index = e.Index + 1
		}
		if index == before {
			break // no entry has the contents of the newest batches yet
		}
	}
	if w.End < f.at {
		return p, errCommittedMissing
	}
	p.behind, p.compared = false, w.Compared()
	p.Tree, err = w.Finish()
	return p, err
}

// walkEntry adds a stored entry to a walker.
func walkEntry(w *digest.Walker, e *segment.Entry) ([]*digest.ForgedError, error) {
	if e.Type != uint8(raftpb.EntryNormal) || len(e.Payload) == 0 {
		return nil, nil
	}
	parsed, err := record.ParseEntry(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", e.Index, err)
	}
	return w.Add(&parsed, e.Index), nil
}

// pieceBytes is how many bytes are read at once.
const pieceBytes = 1 << 20

func (f following) wait(ctx context.Context) error {
	if f.pace == nil {
		return ctx.Err()
	}
	return f.pace(pieceBytes)
}

// piece returns entries from an index on, from memory or disk, or none if there are none. They
// may include uncommitted ones.
func (f following) piece(index uint64) (entries []segment.Entry, err error) {
	for bytes := 0; bytes < pieceBytes; index++ {
		e, ok := f.tail.At(index)
		if !ok {
			break
		}
		entries = append(entries, e.Frame())
		bytes += len(e.Data)
	}
	for len(entries) == 0 {
		inMemory, _ := f.tail.InMemory()
		end := min(f.log.LastIndex()+1, inMemory)
		if index >= end {
			break
		}
		entries, err = f.log.Entries(index, end, pieceBytes)
		if !errors.Is(err, segment.ErrUnavailable) {
			return entries, err
		}
		// A truncation has made the log shorter since LastIndex.
	}
	return entries, nil
}

// indexAt returns the index of the entry that contains an offset below that of a snapshot.
func (f following) indexAt(offset record.Offset) (uint64, error) {
	cursor, err := f.log.NewCursor(offset)
	if err != nil {
		return 0, err
	}
	defer cursor.Close()
	entries, err := cursor.Next(math.MaxInt64, 1)
	if err == nil && len(entries) == 0 {
		err = errCommittedMissing
	}
	if err != nil {
		return 0, err
	}
	return entries[0].Index, nil
}
