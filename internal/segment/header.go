package segment

import (
	"encoding/binary"
	"fmt"

	"strandline.dev/internal/record"
)

const (
	// headerSize is one block of the disk: a segment's header is rewritten
	// never, and shares its block with nothing that is.
	headerSize = 4096

	headerFixedSize = 128 + ownerSize
	maxConfState    = headerSize - headerFixedSize - 4

	// maxPosition bounds positions read from disk, so that sums of two do not
	// overflow. No file is as large.
	maxPosition = 1 << 60

	segmentMagic   = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'S'<<48 | 'G'<<56
	segmentVersion = 2
)

// header is the first block of a segment file. All integers are
// little-endian.
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
//	 112  u64  footer           position of this segment's own footer frame, if it was mended; else 0
//	 120  u64  salt before      of the segment before; 0: there is none
//	 128  owner                 see Owner
//	 176  configuration (opaque, at most 3916 bytes), then zeros
//	4092  u32  CRC              of bytes [0, 4092)
//
// The header and the blocks before it are durable before the file gets the
// name of a segment, see roll. So a segment file with a bad header is never
// what a crash left behind: it is corrupt.
//
// "end before" is what is left of the segment before it once recovery has cut
// a torn tail: bytes from there on are not looked at again. A mended segment is
// laid out anew, so it does not end where the next one tells, but behind its own
// footer.
//
// "salt before" binds a segment to the one in front of it: no other file takes
// that one's place, whatever its name, unless it says that it was mended.
type header struct {
	salt         uint64
	ordinal      uint64
	first        uint64
	termBefore   uint64
	start        record.Offset
	time         int64
	hard         HardState
	endBefore    int64
	footerBefore int64
	bytesBefore  uint64
	footer       int64
	saltBefore   uint64
	owner        Owner
	conf         []byte
	crc          uint32
}

// link is what the first frame has in place of the CRC of a frame before it. The
// header of a mended segment is made when all frames are.
func (h *header) link() uint32 {
	if h.mended() {
		return uint32(h.salt)
	}
	return h.crc
}

// mended tells that the segment was laid out anew and is complete.
func (h *header) mended() bool { return h.footer != 0 }

// comesAfter reports why the segment with header before is not the one that h was
// begun behind; nil if it is.
func (h *header) comesAfter(before *header) error {
	if before.mended() || h.saltBefore == 0 || h.saltBefore == before.salt {
		return nil
	}
	return fmt.Errorf("another file was there when the next segment was begun: its salt was %016x, not %016x", h.saltBefore, before.salt)
}

// encode returns the block and sets crc.
func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	binary.LittleEndian.PutUint64(b, segmentMagic)
	binary.LittleEndian.PutUint32(b[8:], segmentVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(h.conf)))
	binary.LittleEndian.PutUint64(b[16:], h.salt)
	binary.LittleEndian.PutUint64(b[24:], h.ordinal)
	binary.LittleEndian.PutUint64(b[32:], h.first)
	binary.LittleEndian.PutUint64(b[40:], h.termBefore)
	binary.LittleEndian.PutUint64(b[48:], uint64(h.start))
	binary.LittleEndian.PutUint64(b[56:], uint64(h.time))
	h.hard.encode(b[64:])
	binary.LittleEndian.PutUint64(b[88:], uint64(h.endBefore))
	binary.LittleEndian.PutUint64(b[96:], uint64(h.footerBefore))
	binary.LittleEndian.PutUint64(b[104:], h.bytesBefore)
	binary.LittleEndian.PutUint64(b[112:], uint64(h.footer))
	binary.LittleEndian.PutUint64(b[120:], h.saltBefore)
	h.owner.encode(b[128:])
	copy(b[headerFixedSize:], h.conf)
	h.crc = record.Checksum(b[:headerSize-4])
	binary.LittleEndian.PutUint32(b[headerSize-4:], h.crc)
	return b
}

// parseHeader reads the first block of a segment file.
func parseHeader(b []byte) (*header, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("segment header cut short at %d bytes", len(b))
	}
	b = b[:headerSize]
	crc := binary.LittleEndian.Uint32(b[headerSize-4:])
	if sum := record.Checksum(b[:headerSize-4]); sum != crc {
		return nil, fmt.Errorf("segment header has CRC %08x, its bytes %08x", crc, sum)
	}
	if m := binary.LittleEndian.Uint64(b); m != segmentMagic {
		return nil, fmt.Errorf("no segment: magic %016x", m)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segmentVersion {
		return nil, fmt.Errorf("segment version %d, this program knows %d", v, segmentVersion)
	}
	confLength := binary.LittleEndian.Uint32(b[12:])
	if confLength > maxConfState {
		return nil, fmt.Errorf("configuration of %d bytes in a segment header", confLength)
	}
	hard, err := parseHardState(b[64:88])
	if err != nil {
		return nil, err
	}
	h := &header{
		salt:         binary.LittleEndian.Uint64(b[16:]),
		ordinal:      binary.LittleEndian.Uint64(b[24:]),
		first:        binary.LittleEndian.Uint64(b[32:]),
		termBefore:   binary.LittleEndian.Uint64(b[40:]),
		start:        record.Offset(binary.LittleEndian.Uint64(b[48:])),
		time:         int64(binary.LittleEndian.Uint64(b[56:])),
		hard:         hard,
		endBefore:    int64(binary.LittleEndian.Uint64(b[88:])),
		footerBefore: int64(binary.LittleEndian.Uint64(b[96:])),
		bytesBefore:  binary.LittleEndian.Uint64(b[104:]),
		footer:       int64(binary.LittleEndian.Uint64(b[112:])),
		saltBefore:   binary.LittleEndian.Uint64(b[120:]),
		owner:        parseOwner(b[128:]),
		conf:         append([]byte(nil), b[headerFixedSize:][:confLength]...),
		crc:          crc,
	}
	if h.first == 0 {
		return nil, fmt.Errorf("segment header with first index %d", h.first)
	}
	if h.footer != 0 && (h.footer < headerSize || h.footer%frameAlignment != 0 || h.footer > maxPosition) {
		return nil, fmt.Errorf("segment header with footer at %d", h.footer)
	}
	return h, nil
}
