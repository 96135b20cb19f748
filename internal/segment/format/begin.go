package format

import (
	"encoding/binary"
	"errors"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

const (
	beginMagic = uint64('S') | 'T'<<8 | 'R'<<16 | 'A'<<24 | 'N'<<32 | 'D'<<40 | 'B'<<48 | 'G'<<56
	beginFixed = 8 + ownerSize
)

// EncodeBegin encodes the content of a begin mark, which names the owner of the log so that the
// mark of another log cannot move the beginning of this one.
//
//	 0  u64  magic  "STRANDBG"
//	 8  owner       see ownerSize
//	56  u32  CRC    of bytes [0, 56)
func EncodeBegin(owner segment.Owner) []byte {
	b := make([]byte, beginFixed, beginFixed+4)
	binary.LittleEndian.PutUint64(b, beginMagic)
	putOwner(b[8:], owner)
	return binary.LittleEndian.AppendUint32(b, record.Checksum(b))
}

// CheckBegin returns an error if b is not a valid begin mark of the owner o.
func CheckBegin(b []byte, o segment.Owner) error {
	if len(b) != beginFixed+4 || record.Checksum(b[:beginFixed]) != binary.LittleEndian.Uint32(b[beginFixed:]) ||
		binary.LittleEndian.Uint64(b) != beginMagic {
		return errors.New("the file does not match its checksum")
	}
	return o.Mismatch(parseOwner(b[8:]))
}
