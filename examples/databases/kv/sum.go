package main

import (
	"crypto/sha256"
	"encoding/binary"
)

// sum is a digest of a set of entries that does not depend on their order: the sum of their hashes, each number for
// itself. It changes with each entry, so that nobody has to read all of them.
type sum [4]uint64

func (s *sum) add(key []byte, e entry) {
	for i, n := range hash(key, e) {
		s[i] += n
	}
}

func (s *sum) remove(key []byte, e entry) {
	for i, n := range hash(key, e) {
		s[i] -= n
	}
}

func hash(key []byte, e entry) (numbers sum) {
	text := binary.BigEndian.AppendUint64(nil, uint64(len(key)))
	text = append(append(text, key...), e.encode()...)
	digest := sha256.Sum256(text)
	for i := range numbers {
		numbers[i] = binary.BigEndian.Uint64(digest[8*i:])
	}
	return numbers
}

func (s *sum) bytes() (b []byte) {
	for _, n := range s {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}
