package format

import (
	"encoding/binary"
	"errors"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

const (
	keySummaryMagic     = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'K'<<48 | 'Y'<<56
	keySummaryVersion   = 1
	keySummaryFixedSize = 176
	keyBoundSize        = 64

	// LargestKeySummary is the size limit of a key summary file in bytes.
	LargestKeySummary = keySummaryFixedSize + segment.MaxKeyFilterBytes + 4
)

// KeySummary is the content of a key summary file. All integers are little-endian.
//
//	  0  u64  magic          "STRANDKY"
//	  8  u32  version
//	 12  u32  bytes of the filter
//	 16  u64  salt           of the segment
//	 24  u64  ordinal        of the segment
//	 32  u64  end            one beyond the last entry whose keys are in it
//	 40  u8   1: the segment may have any key
//	 41  u8   bytes of the least key; 42: of the greatest; then zeros
//	 48  first 64 bytes of the least key, then those of the greatest
//	176  Bloom filter: for each key the bits (h + i*(h>>32|1)) mod its size, for i from 0 to 6,
//	     where h is XXH64 of the key
//	     u32  CRC            of all before
//
// The file is never synced. A file that is damaged, or that belongs to another segment file, is
// ignored.
type KeySummary struct {
	Salt, Ordinal, End uint64
	*segment.KeySummary
}

// Encode returns the content of the file.
func (s *KeySummary) Encode() []byte {
	b := make([]byte, keySummaryFixedSize, keySummaryFixedSize+len(s.Filter)+4)
	binary.LittleEndian.PutUint64(b, keySummaryMagic)
	binary.LittleEndian.PutUint32(b[8:], keySummaryVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(s.Filter)))
	binary.LittleEndian.PutUint64(b[16:], s.Salt)
	binary.LittleEndian.PutUint64(b[24:], s.Ordinal)
	binary.LittleEndian.PutUint64(b[32:], s.End)
	if s.Any {
		b[40] = 1
	}
	b[41], b[42] = byte(copy(b[48:], s.Least)), byte(copy(b[48+keyBoundSize:], s.Greatest))
	b = append(b, s.Filter...)
	return binary.LittleEndian.AppendUint32(b, record.Checksum(b))
}

var errKeySummary = errors.New("not a key summary")

// ParseKeySummary decodes the content of the file. The summary aliases b.
func ParseKeySummary(b []byte) (s KeySummary, err error) {
	if len(b) < keySummaryFixedSize+4 || binary.LittleEndian.Uint64(b) != keySummaryMagic || binary.LittleEndian.Uint32(b[8:]) != keySummaryVersion {
		return s, errKeySummary
	}
	body := b[:len(b)-4]
	if binary.LittleEndian.Uint32(b[len(body):]) != record.Checksum(body) {
		return s, errKeySummary
	}
	filter := body[keySummaryFixedSize:]
	size, least, greatest := len(filter), int(b[41]), int(b[42])
	if uint64(binary.LittleEndian.Uint32(b[12:])) != uint64(size) || size&(size-1) != 0 || size > segment.MaxKeyFilterBytes || least > keyBoundSize || greatest > keyBoundSize {
		return s, errKeySummary
	}
	return KeySummary{
		Salt: binary.LittleEndian.Uint64(b[16:]), Ordinal: binary.LittleEndian.Uint64(b[24:]), End: binary.LittleEndian.Uint64(b[32:]),
		KeySummary: &segment.KeySummary{
			Any: b[40] != 0, Filter: filter,
			Least: b[48 : 48+least], Greatest: b[48+keyBoundSize : 48+keyBoundSize+greatest],
		},
	}, nil
}
