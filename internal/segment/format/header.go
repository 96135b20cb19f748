package format

import (
	"encoding/binary"
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

const (
	// HeaderSize is one block of the disk. A segment's header is never rewritten and shares its
	// block with nothing that is.
	HeaderSize = 4096

	headerFixedSize = 128 + ownerSize
	MaxConfState    = HeaderSize - headerFixedSize - 4

	// maxPosition bounds positions read from disk so that the sum of two does not overflow. No file
	// is as large.
	maxPosition = 1 << 60

	segmentMagic   = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'S'<<48 | 'G'<<56
	segmentVersion = 2
)

// Header is the first block of a segment file. All integers are little-endian.
//
//	   0  u64  magic            "STRANDSG"
//	   8  u32  version
//	  12  u32  length of the configuration
//	  16  u64  salt             random; every frame of this segment carries it
//	  24  u64  ordinal          rises by one with each segment of a log
//	  32  u64  first index      no frame of this segment has a lower one
//	  40  u64  term before      term of the entry first index - 1
//	  48  i64  start offset     first offset of the entry at first index
//	  56  i64  start time       leader's, unix ms: no entry before is later
//	  64  u64  hard state: term
//	  72  u64  hard state: vote
//	  80  u64  hard state: commit
//	  88  u64  end before       position at which the segment before ends; 0: there is none
//	  96  u64  footer before    position of its footer frame; 0: it has none
//	 104  u64  bytes before     payload bytes of all entries before first index, since creation
//	 112  u64  footer           position of this segment's own footer frame, if it was repaired; else 0
//	 120  u64  salt before      of the segment before; 0: there is none
//	 128  owner                 see Owner
//	 176  configuration (opaque, at most 3916 bytes), then zeros
//	4092  u32  CRC              of bytes [0, 4092)
//
// The header is durable before the file gets the name of a segment. So a crash never leaves a
// segment file with a bad header: such a file is corrupt.
//
// "end before" is the end of the previous segment after recovery has cut a torn tail: bytes from
// there on are not read again. A repaired segment was rewritten, so it ends behind its own footer
// and not at the position in the next header.
//
// "salt before" binds a segment to the one in front of it. No other file can take the place of
// that one, whatever its name, unless its header says that it was repaired.
type Header struct {
	Salt         uint64
	Ordinal      uint64
	First        uint64
	TermBefore   uint64
	Start        record.Offset
	Time         int64
	Hard         segment.HardState
	EndBefore    int64
	FooterBefore int64
	BytesBefore  uint64
	Footer       int64
	SaltBefore   uint64
	Owner        segment.Owner
	Conf         []byte
	Crc          uint32
}

// Link returns the value that the first frame has in place of the CRC of a previous frame. It is
// the header's CRC, or the salt if the segment was repaired, since the header of such a segment
// is written after its frames.
func (h *Header) Link() uint32 {
	if h.Rebuilt() {
		return uint32(h.Salt)
	}
	return h.Crc
}

// Rebuilt reports whether the segment was rewritten by a repair.
func (h *Header) Rebuilt() bool { return h.Footer != 0 }

// ComesAfter returns an error unless the segment with the header before is the one that preceded
// h when h was created.
func (h *Header) ComesAfter(before *Header) error {
	if before.Rebuilt() || h.SaltBefore == 0 || h.SaltBefore == before.Salt {
		return nil
	}
	return fmt.Errorf("the next segment was created after another file, with salt %016x, not %016x", h.SaltBefore, before.Salt)
}

// Encode returns the encoded block and sets Crc.
func (h *Header) Encode() []byte {
	b := make([]byte, HeaderSize)
	binary.LittleEndian.PutUint64(b, segmentMagic)
	binary.LittleEndian.PutUint32(b[8:], segmentVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(h.Conf)))
	binary.LittleEndian.PutUint64(b[16:], h.Salt)
	binary.LittleEndian.PutUint64(b[24:], h.Ordinal)
	binary.LittleEndian.PutUint64(b[32:], h.First)
	binary.LittleEndian.PutUint64(b[40:], h.TermBefore)
	binary.LittleEndian.PutUint64(b[48:], uint64(h.Start))
	binary.LittleEndian.PutUint64(b[56:], uint64(h.Time))
	PutHardState(b[64:], h.Hard)
	binary.LittleEndian.PutUint64(b[88:], uint64(h.EndBefore))
	binary.LittleEndian.PutUint64(b[96:], uint64(h.FooterBefore))
	binary.LittleEndian.PutUint64(b[104:], h.BytesBefore)
	binary.LittleEndian.PutUint64(b[112:], uint64(h.Footer))
	binary.LittleEndian.PutUint64(b[120:], h.SaltBefore)
	putOwner(b[128:], h.Owner)
	copy(b[headerFixedSize:], h.Conf)
	h.Crc = record.Checksum(b[:HeaderSize-4])
	binary.LittleEndian.PutUint32(b[HeaderSize-4:], h.Crc)
	return b
}

// ParseHeader decodes the first block of a segment file.
func ParseHeader(b []byte) (*Header, error) {
	if len(b) < HeaderSize {
		return nil, fmt.Errorf("segment header cut short at %d bytes", len(b))
	}
	b = b[:HeaderSize]
	crc := binary.LittleEndian.Uint32(b[HeaderSize-4:])
	if sum := record.Checksum(b[:HeaderSize-4]); sum != crc {
		return nil, fmt.Errorf("segment header has CRC %08x, its bytes %08x", crc, sum)
	}
	if m := binary.LittleEndian.Uint64(b); m != segmentMagic {
		return nil, fmt.Errorf("not a segment: magic %016x", m)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segmentVersion {
		return nil, fmt.Errorf("segment version %d, this program supports %d", v, segmentVersion)
	}
	confLength := binary.LittleEndian.Uint32(b[12:])
	if confLength > MaxConfState {
		return nil, fmt.Errorf("configuration of %d bytes in a segment header", confLength)
	}
	hard, err := ParseHardState(b[64:88])
	if err != nil {
		return nil, err
	}
	h := &Header{
		Salt:         binary.LittleEndian.Uint64(b[16:]),
		Ordinal:      binary.LittleEndian.Uint64(b[24:]),
		First:        binary.LittleEndian.Uint64(b[32:]),
		TermBefore:   binary.LittleEndian.Uint64(b[40:]),
		Start:        record.Offset(binary.LittleEndian.Uint64(b[48:])),
		Time:         int64(binary.LittleEndian.Uint64(b[56:])),
		Hard:         hard,
		EndBefore:    int64(binary.LittleEndian.Uint64(b[88:])),
		FooterBefore: int64(binary.LittleEndian.Uint64(b[96:])),
		BytesBefore:  binary.LittleEndian.Uint64(b[104:]),
		Footer:       int64(binary.LittleEndian.Uint64(b[112:])),
		SaltBefore:   binary.LittleEndian.Uint64(b[120:]),
		Owner:        parseOwner(b[128:]),
		Conf:         append([]byte(nil), b[headerFixedSize:][:confLength]...),
		Crc:          crc,
	}
	if h.First == 0 {
		return nil, fmt.Errorf("segment header with first index %d", h.First)
	}
	if h.Footer != 0 && (h.Footer < HeaderSize || h.Footer%FrameAlignment != 0 || h.Footer > maxPosition) {
		return nil, fmt.Errorf("segment header with footer at %d", h.Footer)
	}
	return h, nil
}

// Follows reports whether the segment continues the one before it. Other segments begin the log
// or replace it.
func (h *Header) Follows() bool { return h.EndBefore >= HeaderSize }

// Point returns the place of the segment's first entry, without its position in the file.
func (h *Header) Point() Point {
	return Point{Index: h.First, Offset: h.Start, Time: h.Time, Bytes: h.BytesBefore}
}
