package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// entryOf is an entry of batches with so many records each, in a log whose digest it begins.
func entryOf(t testing.TB, random *rand.Rand, first record.Offset, begins bool, counts ...int) record.Entry {
	return entryWith(t, random, first, begins, nil, counts...)
}

// entryWith has the contents of batches before, too.
func entryWith(t testing.TB, random *rand.Rand, first record.Offset, begins bool, contents []record.HashedBatch, counts ...int) record.Entry {
	var metas, body, hashed []byte
	end := first
	for _, count := range counts {
		var builder record.Builder
		for range count {
			require.NoError(t, builder.Add(record.Record{Value: binary.BigEndian.AppendUint64(nil, random.Uint64())}))
		}
		b, err := builder.Finish(record.None)
		require.NoError(t, err)
		b.SetBaseOffset(end)
		end += record.Offset(count)
		metas = record.AppendMeta(metas, record.BatchMeta{Size: uint32(len(b)), Count: uint32(count)})
		body = append(body, b...)
	}
	for i := range contents {
		hashed = record.AppendHashed(hashed, &contents[i])
	}
	data := record.AppendEntryHeader(nil, record.Entry{
		Kind: record.EntryBatches, Batches: len(counts), First: first, Count: uint32(end - first), Begins: begins, Hashed: hashed,
	})
	e, err := record.ParseEntry(append(append(append(data, metas...), body...), hashed...))
	require.NoError(t, err)
	return e
}

// contentsOf are those of an entry's batches.
func contentsOf(e *record.Entry) (contents []record.HashedBatch) {
	first := e.First
	for p, b := range e.All {
		contents = append(contents, record.HashedBatch{First: first, Count: uint32(p.End - first), Size: uint32(p.Size), Content: b.Content()})
		first = p.End
	}
	return contents
}

// entries is a log whose entries have contents of those before.
type entries struct {
	t       testing.TB
	random  *rand.Rand
	all     []record.Entry
	trees   []Tree // behind each entry
	leaves  []Hash // of all batches from where the digest begins
	pending []record.HashedBatch
}

// add adds an entry with the contents of as many batches as chance wants.
func (l *entries) add(begins bool, counts ...int) *record.Entry {
	var tree Tree
	if n := len(l.trees); n > 0 {
		tree = l.trees[n-1].Clone()
	}
	if begins {
		l.pending, l.leaves = nil, nil
	}
	n := l.random.IntN(len(l.pending) + 1)
	e := entryWith(l.t, l.random, tree.End, begins, l.pending[:n], counts...)
	require.NoError(l.t, tree.Fold(&e))
	require.NoError(l.t, tree.Check())
	l.pending = l.pending[n:]
	if tree.Begun {
		for _, h := range contentsOf(&e) {
			l.pending, l.leaves = append(l.pending, h), append(l.leaves, Leaf(h.First, h.Content))
		}
	}
	l.all, l.trees = append(l.all, e), append(l.trees, tree)
	return &l.all[len(l.all)-1]
}

// mth is the Merkle tree hash as RFC 6962 defines it.
func mth(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := mth(leaves[:k]), mth(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

func TestTheDigestIsTheMerkleTreeHashOfRFC6962(t *testing.T) {
	l := entries{t: t, random: rand.New(rand.NewPCG(1, 2))}
	l.add(false, 3)
	require.False(t, l.trees[0].Begun, "an entry of before there were digests")
	require.Equal(t, record.Offset(3), l.trees[0].End)
	for i := range 200 {
		e := l.add(i == 0, 1+l.random.IntN(3), 1+l.random.IntN(3))
		at := e.First
		for p, b := range e.All {
			want := sha256.Sum256(b[21:])
			require.Equal(t, Hash(sha256.Sum256(append(binary.BigEndian.AppendUint64([]byte{0}, uint64(at)), want[:]...))), Leaf(at, b.Content()))
			at = p.End
		}
		tree := l.trees[len(l.trees)-1]
		require.Equal(t, mth(l.leaves[:tree.Batches]), tree.Root())
		require.Equal(t, len(l.leaves)-len(l.pending), int(tree.Batches))

		back, rest, err := Parse(append(tree.Append(nil), "more"...), tree.End)
		require.NoError(t, err)
		require.Equal(t, "more", string(rest))
		require.Equal(t, tree, back)
		require.Equal(t, record.Offset(3), tree.From)
	}
}

func TestATreeTakesNoContentsThatDoNotFollow(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	first := entryOf(t, random, 10, true, 2, 3)
	var tree Tree
	tree.End, tree.Covered = 10, 10
	require.NoError(t, tree.Fold(&first))
	good := contentsOf(&first)
	for name, change := range map[string]func(c []record.HashedBatch) []record.HashedBatch{
		"twice":        func(c []record.HashedBatch) []record.HashedBatch { return append(c, c[1]) },
		"before":       func(c []record.HashedBatch) []record.HashedBatch { c[0].First = 9; return c },
		"out of order": func(c []record.HashedBatch) []record.HashedBatch { c[0], c[1] = c[1], c[0]; return c },
		"beyond":       func(c []record.HashedBatch) []record.HashedBatch { c[1].Count = 4; return c },
		"empty":        func(c []record.HashedBatch) []record.HashedBatch { c[1].Count = 0; return c },
		"larger":       func(c []record.HashedBatch) []record.HashedBatch { c[1].Size++; return c },
		"of its own": func(c []record.HashedBatch) []record.HashedBatch {
			return append(c, record.HashedBatch{First: 15, Count: 1, Size: 1})
		},
		"without those": nil,
	} {
		t.Run(name, func(t *testing.T) {
			tree, contents := tree.Clone(), append([]record.HashedBatch{}, good...)
			if change == nil {
				tree = Tree{Covered: 15, End: 15}
			} else {
				contents = change(contents)
			}
			e := entryWith(t, random, 15, false, contents, 1)
			require.Error(t, tree.Fold(&e))
		})
	}
	e := entryWith(t, random, 15, false, good, 1)
	require.NoError(t, tree.Fold(&e))
	require.Equal(t, []record.Offset{15, 16}, []record.Offset{tree.Covered, tree.End})
	trim, err := record.ParseEntry(record.AppendCommand(record.AppendEntryHeader(nil, record.Entry{Kind: record.EntryCommand, First: 16}),
		record.Command{Kind: record.Trim, Offset: 40, Flags: record.FlagFastForward}))
	require.NoError(t, err)
	require.NoError(t, tree.Fold(&trim))
	require.Equal(t, []record.Offset{15, 40}, []record.Offset{tree.Covered, tree.End}, "the log continues behind a fast-forward")
	next := entryWith(t, random, 40, false, contentsOf(&e))
	require.NoError(t, tree.Fold(&next))
	require.Equal(t, record.Offset(40), tree.Covered)
	require.NoError(t, tree.Check())
}

// From any tree that was kept and from where its next batches are, or from behind it, to any offset: the tree is that of
// the batches, those of which no entry has the content included.
func TestAWalkerAddsWhatTheTreeLacks(t *testing.T) {
	for seed := range uint64(40) {
		l := entries{t: t, random: rand.New(rand.NewPCG(5, seed))}
		for i := range 1 + l.random.IntN(40) {
			l.add(i == 0, 1+l.random.IntN(3), 1+l.random.IntN(3))
		}
		end := l.trees[len(l.trees)-1].End
		for range 20 {
			from, behind := l.random.IntN(len(l.trees)), l.random.IntN(2) == 0
			start, at := l.trees[from], record.Offset(0)
			i := from + 1
			if behind {
				at = start.End + record.Offset(l.random.Int64N(int64(end-start.End)+1))
			} else {
				at = start.Covered + record.Offset(l.random.Int64N(int64(end-start.Covered)+1))
				for i > 0 && l.all[i-1].End() > start.Covered {
					i--
				}
			}
			var leaves []Hash
			w := NewWalker(&start, behind, at, func(h Hash) { leaves = append(leaves, h) })
			for ; i < len(l.all) && !w.Done(); i++ {
				require.Empty(t, w.Add(&l.all[i], uint64(i)))
			}
			known, compared := w.Batches, w.Compared()
			got, err := w.Finish()
			if behind && start.Uncovered > 0 && err != nil {
				require.Equal(t, len(l.all), i, "no entry has them")
				continue
			}
			require.NoError(t, err)
			n := 0
			for _, e := range l.all {
				for p := range e.Places {
					if p.End <= at {
						n++
					}
				}
			}
			require.Equal(t, n, int(got.Batches), "from %+v to %d, behind %v", start, at, behind)
			require.Equal(t, known == got.Batches, compared)
			require.Equal(t, mth(l.leaves[:n]), got.Root())
			require.Equal(t, l.leaves[start.Batches:n], append([]Hash{}, leaves...))
			require.LessOrEqual(t, got.End, at)

			// What it leaves can be continued.
			w = NewWalker(&got, false, end, nil)
			for i := range l.all {
				if l.all[i].End() > got.End {
					w.Add(&l.all[i], uint64(i))
				}
			}
			whole, err := w.Finish()
			require.NoError(t, err)
			require.Equal(t, mth(l.leaves), whole.Root())
		}
	}
}

// A fast-forward to an offset that the log has reached leaves nothing out: a tree as of an offset within a
// batch ends in front of that batch, and can be continued from there.
func TestAFastForwardBelowTheEndIsNoGap(t *testing.T) {
	l := entries{t: t, random: rand.New(rand.NewPCG(5, 7))}
	l.add(true, 3, 3)
	trim := record.Command{Kind: record.Trim, Offset: 5, Flags: record.FlagFastForward}
	end := l.trees[0].End
	l.all = append(l.all, record.Entry{Kind: record.EntryCommand, First: end, Body: record.AppendCommand(nil, trim)})
	w := NewWalker(&Tree{}, false, 5, nil)
	for i := range l.all {
		require.Empty(t, w.Add(&l.all[i], uint64(i)))
	}
	got, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 3, got.End)
	require.EqualValues(t, 3, got.Covered)
}

// A walker over all entries has the tree of each snapshot, and names what is forged.
func TestAWalkerNamesAForgedBatch(t *testing.T) {
	l := entries{t: t, random: rand.New(rand.NewPCG(5, 6))}
	for i := range 30 {
		l.add(i == 0, 1+l.random.IntN(3), 1+l.random.IntN(3))
	}
	l.all[7].Body[len(l.all[7].Body)-1] ^= 1
	var found []*ForgedError
	w := NewWalker(&Tree{}, true, math.MaxInt64, nil)
	for i := range l.all {
		found = append(found, w.Add(&l.all[i], uint64(i))...)
		require.Equal(t, l.trees[i].Root(), w.Root())
		require.Equal(t, l.trees[i].Covered, w.Covered)
		require.Equal(t, l.trees[i].Uncovered, w.Uncovered)
	}
	second := contentsOf(&l.all[7])[1].First
	require.Equal(t, []*ForgedError{{Index: 7, First: second, End: l.all[7].End()}}, found)
	require.ErrorContains(t, found[0], "in entry 7")
}

// A digest that begins anew has nothing of before.
func TestADigestCanBeginAnew(t *testing.T) {
	l := entries{t: t, random: rand.New(rand.NewPCG(9, 9))}
	l.add(true, 2, 2)
	l.add(false, 1)
	before := l.trees[1].Clone()
	l.add(true, 3)
	l.add(false, 3)
	again := l.trees[3]
	require.Equal(t, record.Offset(5), again.From)
	walk := func(from Tree, at record.Offset, entries []record.Entry) *Tree {
		w := NewWalker(&from, false, at, nil)
		for i := range entries {
			w.Add(&entries[i], uint64(i))
		}
		require.True(t, w.Done() || at > 5)
		got, err := w.Finish()
		require.NoError(t, err)
		return &got
	}
	require.Equal(t, mth(l.leaves), walk(Tree{}, 11, l.all).Root())
	require.Equal(t, mth(l.leaves), walk(before, 11, l.all).Root())
	old := walk(Tree{}, 5, l.all)
	require.Equal(t, []record.Offset{0, 5}, []record.Offset{old.From, old.End})
	require.EqualValues(t, 3, old.Batches)
}

// Batches that no entry has the contents of are lost, and the digest begins anew behind them: there is none as of
// an offset before that.
func TestWhereLostBatchesAreNotCoveredThereIsNoDigest(t *testing.T) {
	l := entries{t: t, random: rand.New(rand.NewPCG(9, 9))}
	l.add(true, 2, 2)
	snapshot := l.trees[0]
	require.NotZero(t, snapshot.Uncovered)
	w := NewWalker(&snapshot, true, 4, nil)
	_, err := w.Finish()
	require.ErrorIs(t, err, ErrState, "an entry to come may have them")
	w.Add(l.add(true, 3), 1)
	require.True(t, w.Done())
	got, err := w.Finish()
	require.NoError(t, err)
	require.Equal(t, Tree{Covered: 4, End: 4}, got)
}

func TestACloneGrowsByItself(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var tree Tree
	for range 7 {
		tree.add(Hash{byte(random.Uint32())})
	}
	root, clone := tree.Root(), tree.Clone()
	clone.add(Hash{1})
	require.Equal(t, root, tree.Root())
	tree.add(Hash{2})
	require.NotEqual(t, tree.Root(), clone.Root())
}

// A record is proved from any selection of trees that were kept, and from nothing that
// another log has.
func TestAProofHoldsForItsBatchAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 60 {
		count := 1 + random.IntN(150)
		var tree Tree
		trees := []Tree{{}}
		var leaves []Hash
		var entries []record.Entry
		for i := range count {
			e := entryOf(t, random, record.Offset(2*i), true, 2)
			leaves = append(leaves, Leaf(e.First, record.Batch(e.Body).Content()))
			tree.add(leaves[i])
			entries = append(entries, e)
			if random.IntN(10) == 0 {
				trees = append(trees, tree.Clone())
			}
		}
		trees = append(trees[random.IntN(len(trees)):], tree.Clone())
		begin := int(trees[0].Batches)
		if begin == count {
			continue
		}
		n := begin + random.IntN(count-begin)
		path, err := Path(uint64(n), trees, func(i int) ([]Hash, error) {
			return leaves[trees[i].Batches:trees[i+1].Batches], nil
		})
		require.NoError(t, err)
		p := Proof{Batch: record.Batch(entries[n].Body), Number: uint64(n), Batches: uint64(count), Path: path}
		require.NoError(t, p.Check(tree.Root()))

		require.ErrorIs(t, p.Check(Hash{1}), ErrUnproven)
		moved := p
		moved.Batch = append(record.Batch{}, p.Batch...)
		moved.Batch.SetBaseOffset(p.Batch.BaseOffset() + 2)
		require.ErrorIs(t, moved.Check(tree.Root()), ErrUnproven, "at another offset")
		other := entryOf(t, random, record.Offset(2*n), true, 2)
		forged := p
		forged.Batch = record.Batch(other.Body)
		require.ErrorIs(t, forged.Check(tree.Root()), ErrUnproven, "another record")
		forged = p
		forged.Number = p.Batches
		require.ErrorIs(t, forged.Check(tree.Root()), ErrUnproven)
		forged = p
		forged.Path = append(append([]Hash{}, path...), Hash{})
		require.ErrorIs(t, forged.Check(tree.Root()), ErrUnproven)
	}
}

func TestAMalformedTreeIsRefused(t *testing.T) {
	good := (&Tree{Begun: true, From: 2, Covered: 8, Uncovered: 99, Batches: 3, peaks: make([]Hash, 2)}).Append(nil)
	for name, change := range map[string]func(b []byte) []byte{
		"no header":           func(b []byte) []byte { return b[:31] },
		"no last peak":        func(b []byte) []byte { return b[:len(b)-1] },
		"more batches":        func(b []byte) []byte { b[24] = 24; return b },
		"behind itself":       func(b []byte) []byte { b[0] = 9; return b },
		"below 0":             func(b []byte) []byte { b[7] = 0x80; return b },
		"beyond the end":      func(b []byte) []byte { b[8] = 11; return b },
		"covered and not":     func(b []byte) []byte { b[8] = 10; return b },
		"not covered by none": func(b []byte) []byte { b[16] = 0; return b },
	} {
		_, _, err := Parse(change(append([]byte{}, good...)), 10)
		require.ErrorIs(t, err, ErrState, name)
	}
	_, _, err := Parse(good, 10)
	require.NoError(t, err)
	_, err = ParseHash("ab")
	require.ErrorContains(t, err, "64 hexadecimal digits")
	h, err := ParseHash(Hash{1, 2}.String())
	require.NoError(t, err)
	require.Equal(t, Hash{1, 2}, h)
}
