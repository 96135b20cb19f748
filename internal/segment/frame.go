package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"strandline.dev/internal/record"
	"strandline.dev/test/flaw"
)

// frameKind numbers are on disk: they are for ever.
type frameKind uint8

const (
	// entryFrame holds one Raft entry; its payload is opaque here.
	entryFrame frameKind = 1
	// hardStateFrame holds a HardState. The newest valid one counts.
	hardStateFrame frameKind = 2
	// markFrame is a sync mark. It holds the hard state too, which costs
	// nothing and brings the commit index closer to the truth.
	markFrame frameKind = 3
	// footerFrame is the last frame of a full segment and holds its index.
	footerFrame frameKind = 4
)

const (
	frameHeaderSize = 72

	// frameAlignment of the start of every frame. Looking for frames behind a
	// bad one has to try only these positions.
	frameAlignment = 8

	// maxPayload bounds what a reader allocates for a length read from disk.
	maxPayload = record.MaxEntryBytes
)

// frameHeader is the first part of a frame. All integers are little-endian.
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
// The header CRC begins with the position, so a frame is valid in one place
// only: not where a stray write put it, and not inside the payload of another
// frame, should someone append a segment file to its own log.
//
// A crash may leave any subset of the 512-byte sectors of the writes since
// the last sync: a header without its payload, the second frame of a write
// without the first. What recovery makes of it is told at scan.
type frameHeader struct {
	length     uint32
	kind       frameKind
	entryType  uint8
	salt       uint64
	index      uint64
	term       uint64
	first      record.Offset
	time       int64
	synced     int64
	count      uint32
	before     uint32
	payloadCRC uint32
	headerCRC  uint32
}

// size is the number of bytes from the start of the frame to the next one.
func (h *frameHeader) size() int64 { return frameSize(int(h.length)) }

func frameSize(payload int) int64 {
	return (frameHeaderSize + int64(payload) + frameAlignment - 1) &^ (frameAlignment - 1)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return record.Checksum(b) }

func headerChecksum(b []byte, position int64) uint32 {
	return crc32.Update(uint32(position/frameAlignment), castagnoli, b[:frameHeaderSize-4])
}

// encode writes the header for position to b, which has frameHeaderSize bytes,
// and sets headerCRC.
func (h *frameHeader) encode(b []byte, position int64) {
	_ = b[frameHeaderSize-1]
	binary.LittleEndian.PutUint32(b, h.length)
	b[4], b[5], b[6], b[7] = byte(h.kind), h.entryType, 0, 0
	binary.LittleEndian.PutUint64(b[8:], h.salt)
	binary.LittleEndian.PutUint64(b[16:], h.index)
	binary.LittleEndian.PutUint64(b[24:], h.term)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.first))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.time))
	binary.LittleEndian.PutUint64(b[48:], uint64(h.synced))
	binary.LittleEndian.PutUint32(b[56:], h.count)
	binary.LittleEndian.PutUint32(b[60:], h.before)
	binary.LittleEndian.PutUint32(b[64:], h.payloadCRC)
	h.headerCRC = headerChecksum(b, position)
	binary.LittleEndian.PutUint32(b[68:], h.headerCRC)
}

// parseFrameHeader reads the header found at position of the segment with the
// given salt. The error tells what is wrong with it.
func parseFrameHeader(b []byte, position int64, salt uint64) (h frameHeader, err error) {
	if len(b) < frameHeaderSize {
		return h, fmt.Errorf("frame header cut short at %d bytes", len(b))
	}
	if s := frameSalt(b); s != salt && !flaw.Is(flaw.StaleFramesCount) {
		return h, fmt.Errorf("frame has salt %016x, the segment %016x", s, salt)
	}
	h = frameHeader{
		length:     binary.LittleEndian.Uint32(b),
		kind:       frameKind(b[4]),
		entryType:  b[5],
		salt:       salt,
		index:      binary.LittleEndian.Uint64(b[16:]),
		term:       binary.LittleEndian.Uint64(b[24:]),
		first:      record.Offset(binary.LittleEndian.Uint64(b[32:])),
		time:       int64(binary.LittleEndian.Uint64(b[40:])),
		synced:     int64(binary.LittleEndian.Uint64(b[48:])),
		count:      binary.LittleEndian.Uint32(b[56:]),
		before:     binary.LittleEndian.Uint32(b[60:]),
		payloadCRC: binary.LittleEndian.Uint32(b[64:]),
		headerCRC:  binary.LittleEndian.Uint32(b[68:]),
	}
	if sum := headerChecksum(b, position); sum != h.headerCRC {
		return h, fmt.Errorf("frame header has CRC %08x, its bytes %08x", h.headerCRC, sum)
	}
	if h.length > maxPayload {
		return h, fmt.Errorf("frame of %d bytes, the largest has %d", h.length, maxPayload)
	}
	if h.kind < entryFrame || h.kind > footerFrame {
		return h, fmt.Errorf("unknown frame kind %d", h.kind)
	}
	return h, nil
}

func frameSalt(b []byte) uint64 { return binary.LittleEndian.Uint64(b[8:]) }

// checkPayload compares payload with the header's CRC.
func (h *frameHeader) checkPayload(payload []byte) error {
	if sum := record.Checksum(payload); sum != h.payloadCRC {
		return fmt.Errorf("payload of entry %d has CRC %08x, its bytes %08x", h.index, h.payloadCRC, sum)
	}
	return nil
}

// frame is the entry that h and payload make up.
func (h *frameHeader) frame(payload []byte) Frame {
	return Frame{
		Index: h.index, Term: h.term, Type: h.entryType,
		First: h.first, Count: h.count, Time: h.time,
		CRC: h.payloadCRC, Payload: payload,
	}
}

const hardStateSize = 24

func (h HardState) encode(b []byte) {
	binary.LittleEndian.PutUint64(b, h.Term)
	binary.LittleEndian.PutUint64(b[8:], h.Vote)
	binary.LittleEndian.PutUint64(b[16:], h.Commit)
}

func parseHardState(b []byte) (HardState, error) {
	if len(b) != hardStateSize {
		return HardState{}, fmt.Errorf("hard state of %d bytes", len(b))
	}
	return HardState{
		Term:   binary.LittleEndian.Uint64(b),
		Vote:   binary.LittleEndian.Uint64(b[8:]),
		Commit: binary.LittleEndian.Uint64(b[16:]),
	}, nil
}
