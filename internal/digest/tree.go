// Package digest computes the digest of a log's records: the root of a Merkle tree over its
// batches, as RFC 6962 defines it, and proofs that a record is one of them. docs/formats.md
// describes what is hashed.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"strandline.dev/internal/record"
)

// HashSize is the size of a Hash.
const HashSize = sha256.Size

// Hash is the hash of a node of the tree. The digest is the hash of the root.
type Hash [HashSize]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the result of String.
func ParseHash(text string) (h Hash, err error) {
	if n, err := hex.Decode(h[:], []byte(text)[:min(len(text), 2*HashSize)]); err != nil || n != HashSize || len(text) != 2*HashSize {
		return Hash{}, fmt.Errorf("a digest must have %[2]d hexadecimal digits, not %[1]q", text, 2*HashSize)
	}
	return h, nil
}

// Leaf returns the hash of a batch at its place in the log. In the terms of RFC 6962, the offset
// and the content are the data of the leaf.
func Leaf(first record.Offset, content record.Content) Hash {
	var b [1 + 8 + record.ContentSize]byte // the first byte, 0, marks a leaf
	binary.BigEndian.PutUint64(b[1:], uint64(first))
	copy(b[9:], content[:])
	return sha256.Sum256(b[:])
}

func node(left, right Hash) Hash { return Hash(tlog.NodeHash(tlog.Hash(left), tlog.Hash(right))) }

// Tree is the Merkle tree over the batches of a log. It stores only what it needs to grow and to
// compute its root: the roots of the complete subtrees. The zero value is the tree of a log
// without digests. It is a function of the entries alone, so it is the same on every replica.
//
// It trails the log: a batch becomes a leaf with a later entry that contains its content.
//
//	| not covered | leaves |  not leaves yet  |
//	              ^        ^                  ^
//	            From    Covered              End
type Tree struct {
	// Begun is set after an entry with Begins. The batches from that entry on are, or will become,
	// leaves.
	Begun bool
	From  record.Offset // offset of the first of these batches
	// Covered is the offset of the first batch that is not a leaf yet, or End if there is none.
	Covered record.Offset
	// End is the end of the log after the newest entry, covered or not.
	End record.Offset
	// Uncovered is the size of the batches in [Covered, End), in bytes.
	Uncovered uint64
	Batches   uint64 // leaves
	peaks     []Hash // one for each 1 bit of Batches, the largest subtree first
}

// Clone returns a copy that grows independently.
func (t *Tree) Clone() Tree {
	c := *t
	c.peaks = slices.Clone(t.peaks)
	return c
}

// Root returns the digest. Without batches it is the SHA-256 of the empty string.
func (t *Tree) Root() Hash {
	n := len(t.peaks)
	if n == 0 {
		return sha256.Sum256(nil)
	}
	root := t.peaks[n-1]
	for _, p := range slices.Backward(t.peaks[:n-1]) {
		root = node(p, root)
	}
	return root
}

// Fold adds the next entry. It returns an error if the entry cannot follow the previous ones.
func (t *Tree) Fold(e *record.Entry) error {
	if e.Begins {
		*t = Begin(e.First)
	}
	for h := range e.HashedBatches {
		if !t.Begun || h.Count == 0 || h.First < t.Covered || h.First >= t.End || h.End() > t.End || uint64(h.Size) > t.Uncovered {
			return fmt.Errorf("the entry has the content of a batch of [%d, %d) with %d bytes, which does not fit the uncovered part [%d, %d) of %d bytes", h.First, h.End(), h.Size, t.Covered, t.End, t.Uncovered)
		}
		t.add(Leaf(h.First, h.Content))
		t.Covered = h.End()
		t.Uncovered -= uint64(h.Size)
	}
	if t.Begun {
		for i := range e.Batches {
			t.Uncovered += uint64(e.Meta(i).Size)
		}
	}
	t.End = max(t.End, e.End(), skipped(e))
	if t.Uncovered == 0 {
		t.Covered = t.End
	}
	return nil
}

// skipped returns the offset up to which an entry skips offsets, or 0 if it skips none. A
// fast-forward to an offset that the log has reached already is a trim.
func skipped(e *record.Entry) record.Offset {
	if e.Kind == record.EntryCommand {
		if c, err := record.ParseCommand(e.Body); err == nil && c.Kind == record.Trim && c.Flags&record.FlagFastForward != 0 && c.Offset > e.First {
			return c.Offset
		}
	}
	return 0
}

// Begin returns the tree of a digest that begins at an offset.
func Begin(at record.Offset) Tree { return Tree{Begun: true, From: at, Covered: at, End: at} }

// AddBatch adds a batch of records [first, end) as a leaf, whatever entry has its content. All
// batches of the tree must be leaves. Offsets between them may have been skipped.
func (t *Tree) AddBatch(first, end record.Offset, content record.Content) {
	t.add(Leaf(first, content))
	t.Covered, t.End = end, end
}

// add appends a leaf.
func (t *Tree) add(h Hash) {
	for n := t.Batches; n&1 == 1; n >>= 1 {
		last := len(t.peaks) - 1
		h = node(t.peaks[last], h)
		t.peaks = t.peaks[:last]
	}
	t.peaks = append(t.peaks, h)
	t.Batches++
}

// peak returns the root of the complete subtree of 2^level leaves among the peaks.
func (t *Tree) peak(level int) Hash { return t.peaks[bits.OnesCount64(t.Batches>>(level+1))] }

// ErrState is wrapped by the errors for malformed encoded trees.
var ErrState = errors.New("malformed digest")

const stateBytes = 32 // without the peaks

// MaxStateBytes is the maximum number of bytes that Append writes: there is a peak for each 1 bit
// of the number of batches.
const MaxStateBytes = stateBytes + 64*HashSize

// Append appends the encoding of a tree with Begun set, without End, to dst. All integers are
// little-endian.
//
//	 0  i64  from       offset
//	 8  i64  covered    offset
//	16  u64  uncovered  bytes
//	24  u64  batches
//	32  the peaks, 32 bytes for each 1 in the binary form of batches, the largest subtree first
func (t *Tree) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.From))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Covered))
	dst = binary.LittleEndian.AppendUint64(dst, t.Uncovered)
	dst = binary.LittleEndian.AppendUint64(dst, t.Batches)
	for _, p := range t.peaks {
		dst = append(dst, p[:]...)
	}
	return dst
}

// Parse decodes the result of Append for the tree of a log that ends at end, and returns the
// bytes behind it.
func Parse(data []byte, end record.Offset) (t Tree, rest []byte, err error) {
	le := binary.LittleEndian
	if len(data) < stateBytes {
		return Tree{}, nil, fmt.Errorf("%w: cut short", ErrState)
	}
	t = Tree{
		Begun: true, From: record.Offset(le.Uint64(data)), Covered: record.Offset(le.Uint64(data[8:])), End: end,
		Uncovered: le.Uint64(data[16:]), Batches: le.Uint64(data[24:]),
	}
	rest = data[stateBytes:]
	switch n := bits.OnesCount64(t.Batches); {
	case n*HashSize > len(rest):
		return Tree{}, nil, fmt.Errorf("%w: cut short", ErrState)
	case t.From < 0:
		return Tree{}, nil, fmt.Errorf("%w: it begins at offset %d", ErrState, t.From)
	default:
		for range n {
			t.peaks = append(t.peaks, Hash(rest))
			rest = rest[HashSize:]
		}
	}
	if err := t.Check(); err != nil {
		return Tree{}, nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return t, rest, nil
}

// Check returns an error if the bounds of the tree are not consistent.
func (t *Tree) Check() error {
	switch {
	case t.From > t.Covered || t.Covered > t.End:
		return fmt.Errorf("it begins at %d and is covered up to %d, but the log ends at %d", t.From, t.Covered, t.End)
	case t.Batches > uint64(t.Covered-t.From):
		return fmt.Errorf("%d batches of offsets [%d, %d)", t.Batches, t.From, t.Covered)
	case (t.Uncovered == 0) != (t.Covered == t.End):
		return fmt.Errorf("%d bytes are not covered in the offsets [%d, %d)", t.Uncovered, t.Covered, t.End)
	}
	return nil
}
