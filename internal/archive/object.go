package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"strandline.dev/internal/digest"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Object is a run of committed entries with records, as every replica stores them. All integers
// are little-endian.
//
//	 0  8 bytes  magic
//	 8  u32      size of the head, CRC-32C of the head as u32
//	16  the head: the JSON of Head
//	    the entries, each
//	     0  u32  size of the payload, which is not 0
//	     4  u32  CRC-32C of the payload, as its leader computed it
//	     8  u64  index
//	    16  u64  term
//	    24  u32  CRC-32C of bytes 0 to 23
//	    28  the payload: a record.Entry
//	    the end, in the form of an entry without payload
//	     0  u32  0
//	     4  u32  number of entries
//	     8  i64  offset behind the last record
//	    16  u64  xxHash64 of everything before the end
//	    24  u32  CRC-32C of bytes 0 to 23
type Object struct {
	Head
	End      record.Offset // behind the last record
	Entries  int
	From, To int64 // leader's time of the first and the last entry, Unix milliseconds
	Sum      uint64
	Size     int64
	// Tree is the tree of the digest as of End.
	Tree digest.Tree
}

// Head identifies an object, and has what is needed to read it alone.
type Head struct {
	Cluster string        `json:"cluster"`
	LogID   uint64        `json:"log_id"`
	Log     string        `json:"log"`
	First   record.Offset `json:"first"`
	// Base is the tree of the log's digest as of First, as digest.Tree encodes it.
	Base []byte `json:"tree"`
}

const (
	magic         = "SLARCH\x00\x01" // with the version of the format
	preambleBytes = 16
	frameBytes    = 28

	// ObjectBytes is the size from which on an object is complete.
	ObjectBytes = 32 << 20
	// MaxObjectBytes bounds an object: its last entry may have the largest size.
	MaxObjectBytes = 67 << 20
	// maxHeadBytes bounds the head of an object.
	maxHeadBytes = 64 << 10
)

// ErrObject is wrapped by the errors for objects whose bytes are not what was written.
var ErrObject = errors.New("damaged object")

// Builder builds an object in memory.
type Builder struct {
	object Object
	data   []byte
	next   record.Offset
}

// NewBuilder returns a builder for an object that begins at tree.End, in a log whose digest as of
// there is tree. All batches below must be leaves of the tree.
func NewBuilder(cluster string, id uint64, log string, tree digest.Tree) (*Builder, error) {
	head := Head{Cluster: cluster, LogID: id, Log: log, First: tree.End, Base: tree.Append(nil)}
	text, err := json.Marshal(head)
	if err != nil || len(text) > maxHeadBytes {
		return nil, fmt.Errorf("the head of an object has %d bytes, the limit is %d: %w", len(text), maxHeadBytes, err)
	}
	b := &Builder{object: Object{Head: head, Tree: tree.Clone()}, next: tree.End}
	b.data = append(b.data, magic...)
	b.data = binary.LittleEndian.AppendUint32(b.data, uint32(len(text)))
	b.data = binary.LittleEndian.AppendUint32(b.data, record.Checksum(text))
	b.data = append(b.data, text...)
	return b, nil
}

// Grow makes room for an object of about so many bytes, and at most of a usual one.
func (b *Builder) Grow(bytes int64) {
	const rest = 2 << 20 // the entry that completes it, and headers
	b.data = slices.Grow(b.data, int(min(bytes, ObjectBytes))+rest)
}

// Add adds the next entry with records, of which it keeps a copy. An entry that does not follow or
// does not match its checksum is refused.
func (b *Builder) Add(e *segment.Entry) error {
	if err := b.object.add(&b.next, e); err != nil {
		return err
	}
	b.data = appendFrame(b.data, uint32(len(e.Payload)), e.CRC, e.Index, e.Term)
	b.data = append(b.data, e.Payload...)
	return nil
}

// add checks the next entry and adds it to what is known of an object. It hashes the batches itself: the
// entries with their contents may have no records, and then are in no object.
func (o *Object) add(next *record.Offset, e *segment.Entry) error {
	if record.Checksum(e.Payload) != e.CRC {
		return fmt.Errorf("%w: entry %d does not match its checksum", ErrObject, e.Index)
	}
	entry, err := record.ParseEntry(e.Payload)
	switch {
	case err != nil:
		return fmt.Errorf("%w: entry %d: %w", ErrObject, e.Index, err)
	case entry.Kind != record.EntryBatches || entry.Count == 0:
		return fmt.Errorf("%w: entry %d has no records", ErrObject, e.Index)
	case o.Entries > 0 && entry.First != *next, o.Entries == 0 && (entry.First > *next || entry.End() <= *next):
		return fmt.Errorf("%w: entry %d of offsets [%d, %d) does not follow offset %d", ErrObject, e.Index, entry.First, entry.End(), *next)
	}
	if entry.Begins && entry.First != o.Tree.From {
		o.Tree = digest.Begin(entry.First)
	}
	first := entry.First
	for p, batch := range entry.All {
		if batch.Damaged() {
			return fmt.Errorf("%w: the batch in entry %d that ends at offset %d does not match its checksum", ErrObject, e.Index, p.End)
		}
		if p.End > o.Tree.End { // a tree may end within an entry
			o.Tree.AddBatch(first, p.End, batch.Content())
		}
		first = p.End
	}
	if o.Entries == 0 {
		o.From = entry.Time
	}
	o.To, o.End = entry.Time, entry.End()
	*next = o.End
	o.Entries++
	return nil
}

// Size returns the size of the object so far, in bytes.
func (b *Builder) Size() int { return len(b.data) }

// Finish returns the encoded object, which has at least one entry. The builder must not be used
// afterwards.
func (b *Builder) Finish() (Object, []byte, error) {
	if b.object.Entries == 0 {
		return Object{}, nil, errors.New("an object without entries")
	}
	o := b.object
	o.Sum = xxhash.Sum64(b.data)
	data := appendFrame(b.data, 0, uint32(o.Entries), uint64(o.End), o.Sum)
	o.Size = int64(len(data))
	return o, data, nil
}

func appendFrame(dst []byte, size, crc uint32, index, term uint64) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, size)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	dst = binary.LittleEndian.AppendUint64(dst, index)
	dst = binary.LittleEndian.AppendUint64(dst, term)
	return binary.LittleEndian.AppendUint32(dst, record.Checksum(dst[at:]))
}

// ReadObject decodes an object, verifies every checksum and computes its digest. visit, if not nil, is
// called with each entry, whose payload aliases data.
func ReadObject(data []byte, visit func(e *segment.Entry) error) (Object, error) {
	le := binary.LittleEndian
	if len(data) < preambleBytes || string(data[:8]) != magic {
		return Object{}, fmt.Errorf("%w: it does not begin as an object that this program supports", ErrObject)
	}
	size := le.Uint32(data[8:])
	if size > maxHeadBytes || int(size) > len(data)-preambleBytes {
		return Object{}, fmt.Errorf("%w: its head of %d bytes is cut short", ErrObject, size)
	}
	text := data[preambleBytes:][:size]
	if record.Checksum(text) != le.Uint32(data[12:]) {
		return Object{}, fmt.Errorf("%w: its head does not match its checksum", ErrObject)
	}
	o := Object{Size: int64(len(data))}
	if err := json.Unmarshal(text, &o.Head); err != nil {
		return Object{}, fmt.Errorf("%w: its head: %w", ErrObject, err)
	}
	var err error
	if o.Tree, err = parseTree(o.Base, o.First); err != nil {
		return Object{}, fmt.Errorf("%w: its head: %w", ErrObject, err)
	}
	next := o.First
	for at := preambleBytes + int(size); ; {
		if len(data)-at < frameBytes {
			return o, fmt.Errorf("%w: it is cut short at byte %d", ErrObject, at)
		}
		frame := data[at:][:frameBytes]
		if record.Checksum(frame[:24]) != le.Uint32(frame[24:]) {
			return o, fmt.Errorf("%w: the header at byte %d does not match its checksum", ErrObject, at)
		}
		length := le.Uint32(frame)
		if length == 0 {
			if err := o.finish(data, at); err != nil {
				return o, err
			}
			return o, nil
		}
		if uint64(length) > uint64(len(data)-at-frameBytes) {
			return o, fmt.Errorf("%w: the entry at byte %d is cut short", ErrObject, at)
		}
		e := segment.Entry{Index: le.Uint64(frame[8:]), Term: le.Uint64(frame[16:]), CRC: le.Uint32(frame[4:]), Payload: data[at+frameBytes:][:length:length]}
		if err := o.add(&next, &e); err != nil {
			return o, fmt.Errorf("byte %d: %w", at, err)
		}
		if visit != nil {
			if err := visit(&e); err != nil {
				return o, err
			}
		}
		at += frameBytes + int(length)
	}
}

// finish checks the end of an object at a position.
func (o *Object) finish(data []byte, at int) error {
	frame := data[at:]
	o.Sum = xxhash.Sum64(data[:at])
	switch le := binary.LittleEndian; {
	case len(frame) != frameBytes:
		return fmt.Errorf("%w: it has %d bytes behind its end", ErrObject, len(frame)-frameBytes)
	case le.Uint64(frame[16:]) != o.Sum:
		return fmt.Errorf("%w: it does not match its checksum", ErrObject)
	case o.Entries == 0 || uint32(o.Entries) != le.Uint32(frame[4:]) || uint64(o.End) != le.Uint64(frame[8:]):
		return fmt.Errorf("%w: it has %d entries up to offset %d, and its end names %d up to %d", ErrObject, o.Entries, o.End, le.Uint32(frame[4:]), le.Uint64(frame[8:]))
	}
	return nil
}

// parseTree decodes a tree of a log that ends at end and whose batches are all leaves.
func parseTree(data []byte, end record.Offset) (digest.Tree, error) {
	tree, rest, err := digest.Parse(data, end)
	switch {
	case err != nil:
		return digest.Tree{}, err
	case len(rest) > 0 || tree.Uncovered > 0:
		return digest.Tree{}, fmt.Errorf("%w: of an archive", digest.ErrState)
	}
	return tree, nil
}

// sameTree reports whether two trees are of the same batches.
func sameTree(a, b *digest.Tree) bool {
	return a.From == b.From && bytes.Equal(a.Append(nil)[24:], b.Append(nil)[24:])
}
