package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// FrameKind is the kind of a frame. The numbers are stored on disk and must not change.
type FrameKind uint8

const (
	// EntryFrame holds one Raft entry; its payload is opaque here.
	EntryFrame FrameKind = 1
	// HardStateFrame holds a HardState. The newest valid one is in effect.
	HardStateFrame FrameKind = 2
	// MarkFrame is a sync mark. It also holds the hard state, which costs nothing and makes the
	// stored commit index more recent.
	MarkFrame FrameKind = 3
	// FooterFrame is the last frame of a full segment and holds its index.
	FooterFrame FrameKind = 4
)

const (
	FrameHeaderSize = 72

	// FrameAlignment is the alignment of the start of every frame. A search for frames behind a bad
	// one tries only these positions.
	FrameAlignment = 8

	// MaxPayload bounds what a reader allocates for a length read from disk.
	MaxPayload = record.MaxEntryBytes
)

// FrameHeader is the first part of a frame. All integers are little-endian.
//
//	 0  u32  length          of the payload in bytes
//	 4  u8   kind
//	 5  u8   entry type      Raft's; 0 unless the frame holds an entry
//	 6  u16  reserved        0
//	 8  u64  salt            the segment's: stale frames of a recycled file have another
//	16  u64  index           of the entry; otherwise of the newest entry so far
//	24  u64  term            of that entry
//	32  i64  first offset    of the entry's first record
//	40  i64  time            leader's, unix ms, of the entry
//	48  u64  synced-through  position in this file; everything in front was durable when the frame was built
//	56  u32  record count
//	60  u32  before          header CRC of the frame before; for the first see header.link
//	64  u32  payload CRC
//	68  u32  header CRC      of bytes [0, 68), begun with the frame's position / 8
//	72  payload, then zeros up to the next multiple of 8
//
// The header CRC is seeded with the position, so a frame is valid in one place only: a misplaced
// write is detected, and so is a frame inside the payload of another one, for example when a
// client appends a segment file to its own log.
//
// A crash may leave any subset of the 512-byte sectors of the writes since the last sync: a
// header without its payload, the second frame of a write without the first. Walker.LookBehind
// describes how recovery decides.
type FrameHeader struct {
	Length     uint32
	Kind       FrameKind
	entryType  uint8
	Salt       uint64
	Index      uint64
	Term       uint64
	First      record.Offset
	Time       int64
	Synced     int64
	Count      uint32
	Before     uint32
	PayloadCRC uint32
	HeaderCRC  uint32
}

// Size returns the number of bytes from the start of the frame to the start of the next one.
func (h *FrameHeader) Size() int64 { return FrameSize(int(h.Length)) }

// FrameSize returns the size in a file of a frame with a payload of the given length.
func FrameSize(payload int) int64 {
	return (FrameHeaderSize + int64(payload) + FrameAlignment - 1) &^ (FrameAlignment - 1)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HeaderChecksum returns the CRC-32C of a frame header at the given position of the file.
func HeaderChecksum(b []byte, position int64) uint32 {
	return crc32.Update(uint32(position/FrameAlignment), castagnoli, b[:FrameHeaderSize-4])
}

// Encode writes the header for the given position to b, which has at least FrameHeaderSize bytes,
// and sets HeaderCRC.
func (h *FrameHeader) Encode(b []byte, position int64) {
	_ = b[FrameHeaderSize-1]
	binary.LittleEndian.PutUint32(b, h.Length)
	b[4], b[5], b[6], b[7] = byte(h.Kind), h.entryType, 0, 0
	binary.LittleEndian.PutUint64(b[8:], h.Salt)
	binary.LittleEndian.PutUint64(b[16:], h.Index)
	binary.LittleEndian.PutUint64(b[24:], h.Term)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.First))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.Time))
	binary.LittleEndian.PutUint64(b[48:], uint64(h.Synced))
	binary.LittleEndian.PutUint32(b[56:], h.Count)
	binary.LittleEndian.PutUint32(b[60:], h.Before)
	binary.LittleEndian.PutUint32(b[64:], h.PayloadCRC)
	h.HeaderCRC = HeaderChecksum(b, position)
	binary.LittleEndian.PutUint32(b[68:], h.HeaderCRC)
}

// ParseFrameHeader decodes the header at the given position of a segment with the given salt. The
// error says why the header is not valid.
func ParseFrameHeader(b []byte, position int64, salt uint64) (h FrameHeader, err error) {
	if len(b) < FrameHeaderSize {
		return h, fmt.Errorf("frame header cut short at %d bytes", len(b))
	}
	if s := frameSalt(b); s != salt {
		return h, fmt.Errorf("frame has salt %016x, the segment %016x", s, salt)
	}
	h = FrameHeader{
		Length:     binary.LittleEndian.Uint32(b),
		Kind:       FrameKind(b[4]),
		entryType:  b[5],
		Salt:       salt,
		Index:      binary.LittleEndian.Uint64(b[16:]),
		Term:       binary.LittleEndian.Uint64(b[24:]),
		First:      record.Offset(binary.LittleEndian.Uint64(b[32:])),
		Time:       int64(binary.LittleEndian.Uint64(b[40:])),
		Synced:     int64(binary.LittleEndian.Uint64(b[48:])),
		Count:      binary.LittleEndian.Uint32(b[56:]),
		Before:     binary.LittleEndian.Uint32(b[60:]),
		PayloadCRC: binary.LittleEndian.Uint32(b[64:]),
		HeaderCRC:  binary.LittleEndian.Uint32(b[68:]),
	}
	if sum := HeaderChecksum(b, position); sum != h.HeaderCRC {
		return h, fmt.Errorf("frame header has CRC %08x, its bytes %08x", h.HeaderCRC, sum)
	}
	if h.Length > MaxPayload {
		return h, fmt.Errorf("frame of %d bytes, the limit is %d", h.Length, MaxPayload)
	}
	if h.Kind < EntryFrame || h.Kind > FooterFrame {
		return h, fmt.Errorf("unknown frame kind %d", h.Kind)
	}
	return h, nil
}

// frameSalt returns the salt in an encoded frame header.
func frameSalt(b []byte) uint64 { return binary.LittleEndian.Uint64(b[8:]) }

// CheckPayload returns an error if payload does not match the CRC in the header.
func (h *FrameHeader) CheckPayload(payload []byte) error {
	if sum := record.Checksum(payload); sum != h.PayloadCRC {
		return fmt.Errorf("payload of entry %d has CRC %08x, its bytes %08x", h.Index, h.PayloadCRC, sum)
	}
	return nil
}

// Entry returns the entry that consists of h and payload.
func (h *FrameHeader) Entry(payload []byte) segment.Entry {
	return segment.Entry{
		Index: h.Index, Term: h.Term, Type: h.entryType,
		First: h.First, Count: h.Count, Time: h.Time,
		CRC: h.PayloadCRC, Payload: payload,
	}
}

const HardStateSize = 24

// PutHardState writes the payload of a hard state frame to b.
func PutHardState(b []byte, h segment.HardState) {
	binary.LittleEndian.PutUint64(b, h.Term)
	binary.LittleEndian.PutUint64(b[8:], h.Vote)
	binary.LittleEndian.PutUint64(b[16:], h.Commit)
}

// ParseHardState decodes the payload of a hard state frame.
func ParseHardState(b []byte) (segment.HardState, error) {
	if len(b) != HardStateSize {
		return segment.HardState{}, fmt.Errorf("hard state of %d bytes", len(b))
	}
	return segment.HardState{
		Term:   binary.LittleEndian.Uint64(b),
		Vote:   binary.LittleEndian.Uint64(b[8:]),
		Commit: binary.LittleEndian.Uint64(b[16:]),
	}, nil
}

// EntryHeader returns the frame header of an entry, without the fields that depend on its place
// in a segment.
func EntryHeader(f *segment.Entry) FrameHeader {
	return FrameHeader{
		Length: uint32(len(f.Payload)), Kind: EntryFrame, entryType: f.Type,
		Index: f.Index, Term: f.Term, First: f.First, Count: f.Count, Time: f.Time, PayloadCRC: f.CRC,
	}
}

// StateHeader returns the header of a frame that holds no entry and follows the entry last,
// without the fields that depend on its place in a segment.
func StateHeader(kind FrameKind, last uint64, payload []byte) FrameHeader {
	return FrameHeader{Length: uint32(len(payload)), Kind: kind, Index: last, PayloadCRC: record.Checksum(payload)}
}
