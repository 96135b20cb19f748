package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// checkable reports whether values are large enough to prove what they are.
func checkable(size, least int) error {
	if size < least {
		return fmt.Errorf("a value must have at least %d bytes for the check, not %d", least, size)
	}
	return nil
}

// bodies is how many different bodies the values of a filled log take turns
// with. It is a prime, so that no power of two hides a mix-up.
const bodies = 61

// valueMin has room for the index.
const valueMin = 16

// values makes the records that reading is measured on, and proves that what
// comes back is what was written. Value i is
//
//	0  u64  i, little-endian
//	8  random bytes: body i mod 61, from a fixed seed
//
// so every byte of every record is known beforehand, and is compared.
type values struct {
	bodies [bodies][]byte
	slab   []byte // what fresh has not given away yet
}

// newValues makes values of size bytes, at least valueMin.
func newValues(size int) *values {
	var v values
	random := rand.NewChaCha8([32]byte([]byte("strandline: a strand of records.")))
	for i := range v.bodies {
		v.bodies[i] = make([]byte, size)
		_, _ = random.Read(v.bodies[i]) // never fails
	}
	return &v
}

// value is the i-th value, valid until the next call.
func (v *values) value(i int64) []byte {
	value := v.bodies[i%bodies]
	binary.LittleEndian.PutUint64(value, uint64(i))
	return value
}

// slabBytes is how much memory fresh takes at once.
const slabBytes = 1 << 20

// fresh is the i-th value in memory of its own.
func (v *values) fresh(i int64) []byte {
	value := v.value(i)
	if len(v.slab) < len(value) {
		v.slab = make([]byte, max(slabBytes, len(value)))
	}
	mine := v.slab[:len(value):len(value)]
	v.slab = v.slab[len(value):]
	copy(mine, value)
	return mine
}

// check proves that the value is the i-th. The error says what it is instead.
func (v *values) check(i int64, value []byte) error {
	if len(value) != len(v.bodies[0]) {
		return fmt.Errorf("record %d has %d bytes instead of %d", i, len(value), len(v.bodies[0]))
	}
	if found := binary.LittleEndian.Uint64(value); found != uint64(i) {
		return fmt.Errorf("record %d has the number %d", i, found)
	}
	if !bytes.Equal(value[8:], v.bodies[i%bodies][8:]) {
		return fmt.Errorf("record %d has other bytes than the one written", i)
	}
	return nil
}
