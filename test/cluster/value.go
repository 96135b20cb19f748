package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
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

// parseValue is the inverse of valueOf.
func parseValue(value []byte) (writer, number int, err error) {
	if len(value) >= minValueBytes {
		writer = int(binary.BigEndian.Uint32(value))
		number = int(binary.BigEndian.Uint64(value[4:]))
		if bytes.Equal(value, valueOf(writer, number, len(value))) {
			return writer, number, nil
		}
	}
	return 0, 0, fmt.Errorf("a value of %d bytes that no writer has made: %.32x", len(value), value)
}
