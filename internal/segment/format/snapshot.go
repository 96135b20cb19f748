package format

import (
	"encoding/binary"
	"fmt"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

const (
	snapshotHeaderSize = 48 + ownerSize
	snapshotMagic      = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'S'<<48 | 'N'<<56
	snapshotVersion    = 2
)

// EncodeSnapshot returns the content of a snapshot file. All integers are little-endian.
//
//	 0  u64  magic       "STRANDSN"
//	 8  u32  version
//	12  u32  data CRC
//	16  u64  index       the data is the state after this entry
//	24  u64  term        of that entry
//	32  u64  length      of the data
//	40  owner            see Owner
//	88  u32  reserved    0
//	92  u32  header CRC  of bytes [0, 92)
//	96  data
//
// The file gets its name once it is durable, so a crash never leaves a bad one. At least two are
// kept: if the newer is damaged, the older serves as well, as long as the log reaches back to it.
func EncodeSnapshot(owner segment.Owner, index, term uint64, data []byte) []byte {
	b := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(data))
	binary.LittleEndian.PutUint64(b, snapshotMagic)
	binary.LittleEndian.PutUint32(b[8:], snapshotVersion)
	binary.LittleEndian.PutUint32(b[12:], record.Checksum(data))
	binary.LittleEndian.PutUint64(b[16:], index)
	binary.LittleEndian.PutUint64(b[24:], term)
	binary.LittleEndian.PutUint64(b[32:], uint64(len(data)))
	putOwner(b[40:], owner)
	binary.LittleEndian.PutUint32(b[snapshotHeaderSize-4:], record.Checksum(b[:snapshotHeaderSize-4]))
	return append(b, data...)
}

// ParseSnapshot decodes the content of a snapshot file of the given owner and index. data aliases
// b.
func ParseSnapshot(b []byte, owner segment.Owner, index uint64) (term uint64, data []byte, err error) {
	if len(b) < snapshotHeaderSize {
		return 0, nil, fmt.Errorf("snapshot header cut short at %d bytes", len(b))
	}
	const fixed = snapshotHeaderSize - 4
	if crc, sum := binary.LittleEndian.Uint32(b[fixed:]), record.Checksum(b[:fixed]); crc != sum {
		return 0, nil, fmt.Errorf("snapshot header has CRC %08x, its bytes %08x", crc, sum)
	}
	if m := binary.LittleEndian.Uint64(b); m != snapshotMagic {
		return 0, nil, fmt.Errorf("not a snapshot: magic %016x", m)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != snapshotVersion {
		return 0, nil, fmt.Errorf("snapshot version %d, this program supports %d", v, snapshotVersion)
	}
	if err := owner.Mismatch(parseOwner(b[40:])); err != nil {
		return 0, nil, err
	}
	if found := binary.LittleEndian.Uint64(b[16:]); found != index {
		return 0, nil, fmt.Errorf("snapshot of entry %d", found)
	}
	data = b[snapshotHeaderSize:]
	if length := binary.LittleEndian.Uint64(b[32:]); length != uint64(len(data)) {
		return 0, nil, fmt.Errorf("snapshot of %d bytes, its header claims %d", len(data), length)
	}
	if crc, sum := binary.LittleEndian.Uint32(b[12:]), record.Checksum(data); crc != sum {
		return 0, nil, fmt.Errorf("snapshot data has CRC %08x, its bytes %08x", crc, sum)
	}
	return binary.LittleEndian.Uint64(b[24:]), data, nil
}
