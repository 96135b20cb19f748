package record

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// EntryVersion is the version of an entry, and DigestedVersion that of an entry with which the
// log's digest begins or continues. A replica stops at any other version.
const (
	EntryVersion    = 1
	DigestedVersion = 2
)

// EntryKind is the kind of an entry's content.
type EntryKind uint8

const (
	// EntryBatches carries record batches.
	EntryBatches EntryKind = 1
	// EntryCommand carries one Command.
	EntryCommand EntryKind = 2
)

const (
	entryHeaderSize = 40
	batchMetaSize   = 48

	// ContentSize is the size of a Content.
	ContentSize = sha256.Size
	// HashedSize is the size of an encoded HashedBatch.
	HashedSize = 16 + ContentSize

	entryBegins = 1 << 0 // flag: Entry.Begins
)

// Content is the SHA-256 of the content of a batch, see Batch.Content.
type Content [ContentSize]byte

// Entry is the payload of one Raft entry, the unit in which appends become durable. All integers
// are little-endian.
//
//	 0  u8   version        EntryVersion or, of batches, DigestedVersion
//	 1  u8   kind           EntryBatches or EntryCommand
//	 2  u16  flags          in DigestedVersion, 1: the log's digest begins here; else 0
//	 4  u32  batch count    EntryBatches: how many BatchMeta follow
//	 8  i64  time           leader's time, unix ms, never decreasing in a log
//	16  u64  chain          chain value before this entry, see NextChain
//	24  i64  first offset   of the first record; for a command: the end of the log
//	32  u32  record count   records in all batches; 0 for a command
//	36  u32  hashed count   in DigestedVersion: how many HashedBatch follow; else 0
//	40  batch count x BatchMeta (48 bytes each), then the batches, contiguous, then
//	    hashed count x HashedBatch (48 bytes each)
//	    or, for a command, the encoded Command
//
// The batches are stored exactly as the producer sent them, except for base offset and leader
// epoch, which the batch CRC does not cover.
type Entry struct {
	Kind    EntryKind
	Time    int64
	Chain   uint64
	First   Offset
	Count   uint32
	Metas   []byte // batch count x BatchMeta
	Body    []byte // contiguous batches, or one encoded command
	Batches int    // number of batches in Body
	// Begins is set if the log's digest covers the batches from this entry on, and none before.
	Begins bool
	// Hashed is the contents of batches of earlier entries, see AppendHashed.
	Hashed []byte
}

// HashedBatch is the content of a batch in an earlier entry.
//
//	 0  i64  first offset
//	 8  u32  record count
//	12  u32  size           of the encoded batch
//	16  the content
type HashedBatch struct {
	First   Offset
	Count   uint32
	Size    uint32
	Content Content
}

// End returns the offset after the last record of the batch.
func (h *HashedBatch) End() Offset { return h.First + Offset(h.Count) }

// BatchMeta is the metadata of one batch.
//
//	 0  u32  size            of the encoded batch in Body
//	 4  u32  epoch
//	 8  u64  session         0: no session
//	16  u64  first sequence  of the first record of the batch
//	24  u64  low-water mark  every sequence below is acknowledged to the client
//	32  u64  writer term     the append carried; 0: not fenced
//	40  u32  record count
//	44  u32  flags           see MetaImplicit
type BatchMeta struct {
	Size       uint32
	Epoch      Epoch
	Session    SessionID
	First      Sequence
	LowWater   Sequence
	WriterTerm WriterTerm
	Count      uint32
	Flags      uint32
}

// MetaImplicit marks a batch of a session that is opened, or moved to a higher epoch, by its
// first batch and without a command (Kafka's idempotent producers).
const MetaImplicit uint32 = 1 << 0

// ErrEntry is wrapped by every error of ParseEntry.
var ErrEntry = errors.New("malformed entry")

// ParseEntry decodes an entry without copying: Metas, Body and Hashed alias data.
func ParseEntry(data []byte) (Entry, error) {
	e, err := ParseEntryHead(data, len(data))
	if err == nil {
		end := len(data) - e.hashedSize(data)
		e.Body = data[e.bodyAt():end]
		if end < len(data) {
			e.Hashed = data[end:]
		}
	}
	return e, err
}

// ParseEntryHead is like ParseEntry for the first bytes of an entry of the given length. They
// must include everything before the body. Body and Hashed stay empty.
func ParseEntryHead(data []byte, length int) (Entry, error) {
	if len(data) < entryHeaderSize {
		return Entry{}, fmt.Errorf("%w: %d bytes, the header alone has %d", ErrEntry, len(data), entryHeaderSize)
	}
	if v := data[0]; v != EntryVersion && v != DigestedVersion {
		return Entry{}, fmt.Errorf("%w: version %d, this program supports %d and %d", ErrEntry, v, EntryVersion, DigestedVersion)
	}
	e := Entry{
		Kind:    EntryKind(data[1]),
		Batches: int(binary.LittleEndian.Uint32(data[4:])),
		Time:    int64(binary.LittleEndian.Uint64(data[8:])),
		Chain:   binary.LittleEndian.Uint64(data[16:]),
		First:   Offset(binary.LittleEndian.Uint64(data[24:])),
		Count:   binary.LittleEndian.Uint32(data[32:]),
	}
	hashed := 0
	if data[0] == DigestedVersion {
		flags := binary.LittleEndian.Uint16(data[2:])
		if e.Begins = flags == entryBegins; flags&^entryBegins != 0 {
			return Entry{}, fmt.Errorf("%w: unknown flags %#x", ErrEntry, flags)
		}
		if hashed = e.hashedSize(data); hashed == 0 && !e.Begins {
			return Entry{}, fmt.Errorf("%w: version %d has no data of a digest", ErrEntry, DigestedVersion)
		}
	}
	rest := data[entryHeaderSize:]
	switch e.Kind {
	case EntryCommand:
		if e.Batches != 0 || e.Count != 0 || data[0] == DigestedVersion {
			return Entry{}, fmt.Errorf("%w: a command has records or contents", ErrEntry)
		}
	case EntryBatches:
		if e.Batches > len(rest)/batchMetaSize {
			return Entry{}, fmt.Errorf("%w: %d batches do not fit %d bytes", ErrEntry, e.Batches, len(rest))
		}
		e.Metas = rest[:e.Batches*batchMetaSize]
		return e, e.check(length - e.bodyAt() - hashed)
	default:
		return Entry{}, fmt.Errorf("%w: unknown kind %d", ErrEntry, e.Kind)
	}
	return e, nil
}

// hashedSize returns the size of Hashed at the end of an encoded entry of batches.
func (e *Entry) hashedSize(data []byte) int {
	if data[0] != DigestedVersion {
		return 0
	}
	return int(binary.LittleEndian.Uint32(data[36:])) * HashedSize
}

// bodyAt returns the position of the body.
func (e *Entry) bodyAt() int { return entryHeaderSize + len(e.Metas) }

// check checks that the metadata and a body of the given size agree in sizes and counts.
func (e *Entry) check(body int) error {
	size, count := uint64(0), uint64(0)
	for i := range e.Batches {
		m := e.Meta(i)
		size += uint64(m.Size)
		count += uint64(m.Count)
	}
	if body < 0 || size != uint64(body) || count != uint64(e.Count) {
		return fmt.Errorf("%w: the metadata has %d bytes and %d records, the header and body %d and %d",
			ErrEntry, size, count, body, e.Count)
	}
	return nil
}

// Places yields the places of the batches. It is an iter.Seq.
func (e *Entry) Places(yield func(BatchPlace) bool) {
	p := BatchPlace{At: int64(e.bodyAt()), End: e.First}
	for i := range e.Batches {
		m := e.Meta(i)
		p.Size, p.End = int(m.Size), p.End+Offset(m.Count)
		if !yield(p) {
			return
		}
		p.At += int64(m.Size)
	}
}

// BatchPlace is the place of a batch in an encoded entry.
type BatchPlace struct {
	At   int64
	Size int
	End  Offset // behind its last record
}

// All yields the place and the bytes of each batch of an entry from ParseEntry. It is an
// iter.Seq2.
func (e *Entry) All(yield func(BatchPlace, Batch) bool) {
	body := e.bodyAt()
	for p := range e.Places {
		if !yield(p, Batch(e.Body[int(p.At)-body:][:p.Size])) {
			return
		}
	}
}

// HashedBatches yields the batches in Hashed. It is an iter.Seq.
func (e *Entry) HashedBatches(yield func(HashedBatch) bool) {
	for b := e.Hashed; len(b) >= HashedSize; b = b[HashedSize:] {
		h := HashedBatch{
			First: Offset(binary.LittleEndian.Uint64(b)), Count: binary.LittleEndian.Uint32(b[8:]),
			Size: binary.LittleEndian.Uint32(b[12:]), Content: Content(b[16:]),
		}
		if !yield(h) {
			return
		}
	}
}

// AppendHashed appends the encoding of a batch for Entry.Hashed to dst.
func AppendHashed(dst []byte, h *HashedBatch) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.First))
	dst = binary.LittleEndian.AppendUint32(dst, h.Count)
	dst = binary.LittleEndian.AppendUint32(dst, h.Size)
	return append(dst, h.Content[:]...)
}

// Meta returns the metadata of the i-th batch.
func (e Entry) Meta(i int) BatchMeta {
	b := e.Metas[i*batchMetaSize:][:batchMetaSize]
	return BatchMeta{
		Size:       binary.LittleEndian.Uint32(b),
		Epoch:      Epoch(binary.LittleEndian.Uint32(b[4:])),
		Session:    SessionID(binary.LittleEndian.Uint64(b[8:])),
		First:      Sequence(binary.LittleEndian.Uint64(b[16:])),
		LowWater:   Sequence(binary.LittleEndian.Uint64(b[24:])),
		WriterTerm: WriterTerm(binary.LittleEndian.Uint64(b[32:])),
		Count:      binary.LittleEndian.Uint32(b[40:]),
		Flags:      binary.LittleEndian.Uint32(b[44:]),
	}
}

// End returns the offset after the last record of the entry.
func (e Entry) End() Offset { return e.First + Offset(e.Count) }

// AppendEntryHeader appends the encoded fixed header to dst. AppendMeta and plain appends add the
// rest. Only the length of e.Hashed is used.
func AppendEntryHeader(dst []byte, e Entry) []byte {
	version, flags := byte(EntryVersion), byte(0)
	if e.Begins || len(e.Hashed) > 0 {
		version = DigestedVersion
	}
	if e.Begins {
		flags = entryBegins
	}
	dst = append(dst, version, byte(e.Kind), flags, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.Batches))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Time))
	dst = binary.LittleEndian.AppendUint64(dst, e.Chain)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.First))
	dst = binary.LittleEndian.AppendUint32(dst, e.Count)
	return binary.LittleEndian.AppendUint32(dst, uint32(len(e.Hashed)/HashedSize))
}

// AppendMeta appends the encoded metadata of one batch to dst.
func AppendMeta(dst []byte, m BatchMeta) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, m.Size)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.Epoch))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.Session))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.First))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.LowWater))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.WriterTerm))
	dst = binary.LittleEndian.AppendUint32(dst, m.Count)
	return binary.LittleEndian.AppendUint32(dst, m.Flags)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C used for batches, entries, frames and snapshots.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// NextChain returns the chain value after an entry with the given payload CRC. Each entry stores
// the value before it, so a missing, swapped or repeated entry is detected. The chain is not a
// signature: it does not resist an adversary. The mixer is the finalizer of MurmurHash3 (Appleby,
// public domain).
func NextChain(chain uint64, payloadCRC uint32) uint64 {
	x := chain ^ (uint64(payloadCRC) + 0x9e3779b97f4a7c15)
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
