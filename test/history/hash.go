package history

import (
	"encoding/binary"
	"hash/fnv"
)

// Hash stands for a record with this key and value in a history: FNV-1a, 64
// bits, over the length of the key (8 bytes, big endian), the key, the value. A
// history needs records that all differ: equal ones could not be told apart.
func Hash(key, value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(key))))
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	return h.Sum64()
}
