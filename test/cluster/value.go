package cluster

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
)

// minValueBytes holds what a value names.
const minValueBytes = 16

// valueOf is the value of a record: its writer, its number, and bytes that
// follow from both, so that no part of it can be another's.
//
//	 0  4 writer
//	 4  8 number
//	12  4 check of the above
//	16    the first 16 bytes again and again
func valueOf(writer, number, size int) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(writer))
	head = binary.BigEndian.AppendUint64(head, uint64(number))
	check := fnv.New32a()
	_, _ = check.Write(head)
	head = check.Sum(head)
	return bytes.Repeat(head, size/len(head)+1)[:size]
}
