package format

import (
	"encoding/binary"
	"errors"
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Watermark is one slot of the file of the durable watermark.
//
// The file has two slots, each in a block of its own, which are written in turn, so a torn write
// leaves the other one intact. The valid slot with the higher counter is in effect. All integers
// are little-endian.
//
//	 0  u64  magic      "STRANDWT"
//	 8  u32  version
//	12  u32  zero
//	16  u64  counter    rises by one with each writing; its parity is that of the slot
//	24  u64  ordinal    of the newest segment
//	32  u64  salt       of that segment, which a new file of the same name does not have
//	40  i64  position   everything in front of it in that segment is durable
//	48  u64  term       of the newest durable hard state
//	56  u64  vote
//	64  u64  last       index of the last entry in front of position
//	72  owner           see Owner
//	120 u32  CRC        of bytes [0, 120); the rest of the block is zero
type Watermark struct {
	Counter    uint64
	Ordinal    uint64
	Salt       uint64
	Position   int64
	Term, Vote uint64
	Last       uint64
	Owner      segment.Owner
}

const (
	watermarkMagic   = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'W'<<48 | 'T'<<56
	watermarkVersion = 2

	SlotSize      = 4096 // a block of the disk: the two share none
	slotFixed     = 72 + ownerSize
	WatermarkSize = 2 * SlotSize
)

// Encode returns the block of the slot.
func (t *Watermark) Encode() []byte {
	b := make([]byte, SlotSize)
	binary.LittleEndian.PutUint64(b, watermarkMagic)
	binary.LittleEndian.PutUint32(b[8:], watermarkVersion)
	for i, v := range []uint64{t.Counter, t.Ordinal, t.Salt, uint64(t.Position), t.Term, t.Vote, t.Last} {
		binary.LittleEndian.PutUint64(b[16+8*i:], v)
	}
	putOwner(b[72:], t.Owner)
	binary.LittleEndian.PutUint32(b[slotFixed:], record.Checksum(b[:slotFixed]))
	return b
}

// Slot returns the position of the slot in the file.
func (t *Watermark) Slot() int64 { return int64(t.Counter%2) * SlotSize }

// ErrNoSlot is returned for a slot that was never written, was written in part, or was damaged.
var ErrNoSlot = errors.New("not a valid slot")

// ErrUnknownVersion is returned for a file that another version of the program wrote. It is not
// damage.
var ErrUnknownVersion = errors.New("version")

// parseSlot decodes a slot. The error for a version that this program does not support wraps
// ErrUnknownVersion.
func parseSlot(b []byte) (t Watermark, err error) {
	if len(b) < slotFixed+4 || record.Checksum(b[:slotFixed]) != binary.LittleEndian.Uint32(b[slotFixed:]) ||
		binary.LittleEndian.Uint64(b) != watermarkMagic {
		return t, ErrNoSlot
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != watermarkVersion {
		return t, fmt.Errorf("watermark %w %d, this program supports %d", ErrUnknownVersion, v, watermarkVersion)
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[16+8*i:]) }
	t = Watermark{Counter: n(0), Ordinal: n(1), Salt: n(2), Position: int64(n(3)), Term: n(4), Vote: n(5), Last: n(6), Owner: parseOwner(b[72:])}
	if t.Position < HeaderSize || t.Position > maxPosition {
		return Watermark{}, ErrNoSlot
	}
	return t, nil
}

// ParseWatermark returns the newest valid slot. It returns ErrNoSlot if there is none.
func ParseWatermark(b []byte) (newest Watermark, err error) {
	valid := false
	for at := 0; at+SlotSize <= min(len(b), WatermarkSize); at += SlotSize {
		t, err := parseSlot(b[at : at+SlotSize])
		switch {
		case errors.Is(err, ErrNoSlot):
		case err != nil:
			return Watermark{}, err
		case !valid || t.Counter > newest.Counter:
			newest, valid = t, true
		}
	}
	if !valid {
		return Watermark{}, ErrNoSlot
	}
	return newest, nil
}
