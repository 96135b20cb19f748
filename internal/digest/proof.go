package digest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"strandline.dev/internal/record"
)

// Proof proves that a batch is at its place in a log with a given digest.
type Proof struct {
	Batch   record.Batch // with its base offset
	Number  uint64       // number of the batch, from 0
	Batches uint64       // number of batches that the digest covers
	Path    []Hash       // the audit path of RFC 6962
}

// ErrUnproven is wrapped by every error of Check.
var ErrUnproven = errors.New("the proof does not hold")

// Check returns nil if the batch is intact and lies at its base offset in the log whose
// digest is root.
func (p *Proof) Check(root Hash) error {
	if err := p.Batch.Verify(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	if p.Number >= p.Batches || p.Batches > 1<<62 {
		return fmt.Errorf("%w: batch %d of %d", ErrUnproven, p.Number, p.Batches)
	}
	path := make(tlog.RecordProof, len(p.Path))
	for i, h := range p.Path {
		path[i] = tlog.Hash(h)
	}
	leaf := Leaf(p.Batch.BaseOffset(), p.Batch.Content())
	if err := tlog.CheckRecord(path, int64(p.Batches), tlog.Hash(root), int64(p.Number), tlog.Hash(leaf)); err != nil {
		return fmt.Errorf("%w: under digest %v there is no such batch at offset %d", ErrUnproven, root, p.Batch.BaseOffset())
	}
	return nil
}

// Path returns the audit path of batch n in the last of trees, which are trees of one log in
// ascending order. leaves returns the leaves between the i-th tree and the next.
func Path(n uint64, trees []Tree, leaves func(i int) ([]Hash, error)) ([]Hash, error) {
	t := history{trees, leaves}
	proof, err := tlog.ProveRecord(int64(trees[len(trees)-1].Batches), int64(n), tlog.HashReaderFunc(t.hashes))
	if err != nil {
		return nil, err
	}
	path := make([]Hash, len(proof))
	for i, h := range proof {
		path[i] = Hash(h)
	}
	return path, nil
}

// history computes any node of the last tree.
type history struct {
	trees  []Tree
	leaves func(i int) ([]Hash, error)
}

func (t *history) hashes(indexes []int64) ([]tlog.Hash, error) {
	all := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		h, err := t.subtree(level, uint64(n))
		if err != nil {
			return nil, err
		}
		all[i] = tlog.Hash(h)
	}
	return all, nil
}

// subtree returns the root of the leaves [n, n+1) << level. While the tree grew from the end of a
// left child to the end of its sibling, the root of that child was among its peaks. If one of
// trees is from that time, no leaf is read. Otherwise everything that the sibling covers lies
// between two of trees, so at most the leaves between two trees are read at each end of the
// subtree.
func (t *history) subtree(level int, n uint64) (Hash, error) {
	end := (n + 1) << level
	if at := t.reaching(end); n&1 == 0 && t.trees[at].Batches < end+1<<level {
		return t.trees[at].peak(level), nil
	}
	if level == 0 {
		return t.leaf(n)
	}
	left, err := t.subtree(level-1, 2*n)
	if err != nil {
		return Hash{}, err
	}
	right, err := t.subtree(level-1, 2*n+1)
	if err != nil {
		return Hash{}, err
	}
	return node(left, right), nil
}

// reaching returns the index of the first tree with at least the given number of batches. The
// last tree has them.
func (t *history) reaching(batches uint64) int {
	at, _ := slices.BinarySearchFunc(t.trees, batches, func(t Tree, batches uint64) int { return cmp.Compare(t.Batches, batches) })
	return at
}

func (t *history) leaf(n uint64) (Hash, error) {
	at := t.reaching(n+1) - 1
	if at < 0 {
		return Hash{}, fmt.Errorf("batch %d is no longer stored", n)
	}
	leaves, err := t.leaves(at)
	if err != nil {
		return Hash{}, err
	}
	if i := n - t.trees[at].Batches; i < uint64(len(leaves)) {
		return leaves[i], nil
	}
	return Hash{}, fmt.Errorf("expected %d batches from batch %d on, got %d", t.trees[at+1].Batches-t.trees[at].Batches, t.trees[at].Batches, len(leaves))
}
