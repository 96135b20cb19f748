package segment

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"strandline.dev/internal/record"
)

const (
	// MaxKeyFilterBytes bounds the filter of a summary. It suffices for 200,000 keys at a false
	// positive rate of 1 %, and for 400,000 at 10 %.
	MaxKeyFilterBytes = 256 << 10
	minKeyFilterBytes = 64
	// keyBits is the number of bits of a filter that a key sets.
	keyBits = 7
	// keyBoundBytes is how many bytes of the least and the greatest key a summary keeps.
	keyBoundBytes = 64
	// inflatedKeyBytes bounds the decompressed size of a batch whose keys are summarized.
	inflatedKeyBytes = 4 << 20
	// SummaryChunk is how many bytes of a segment are read at once to summarize it.
	SummaryChunk = 1 << 20
	// SummaryRoom is the memory in bytes that summarizing a segment takes.
	SummaryRoom = MaxKeyFilterBytes + inflatedKeyBytes*9/4 + SummaryChunk
)

// KeySummary describes the keys that the records of a segment may have. It may include keys that
// are not there, but never omits one that is.
type KeySummary struct {
	// Any is set if the segment may have any key. The other fields have no meaning then.
	Any bool
	// Least and Greatest are the first 64 bytes of the least and of the greatest key.
	Least, Greatest []byte
	// Filter is a Bloom filter of the keys. Its length in bytes is a power of two, or 0 if there are
	// no keys.
	Filter []byte
}

// KeyQuery is the condition of a read on keys: one of several keys, one of several prefixes, or
// both.
type KeyQuery struct {
	keys     [][]byte
	hashes   []uint64 // of the keys
	prefixes [][]byte
	// Read counts the bytes of summaries that were read to answer the query.
	Read int
}

// NewKeyQuery returns a query for the given keys and prefixes, or nil if every key satisfies it.
func NewKeyQuery(keys, prefixes [][]byte) *KeyQuery {
	if len(keys) == 0 && len(prefixes) == 0 {
		return nil
	}
	q := &KeyQuery{keys: keys, prefixes: prefixes, hashes: make([]uint64, len(keys))}
	for i, k := range keys {
		q.hashes[i] = xxhash.Sum64(k)
	}
	return q
}

// MayHave reports whether the segment may have a record that satisfies q.
func (s *KeySummary) MayHave(q *KeyQuery) bool {
	switch {
	case s.Any:
		return true
	case len(s.Filter) == 0:
		return false
	case len(q.prefixes) > 0 && !slices.ContainsFunc(q.prefixes, s.mayBegin):
		return false
	}
	for i, k := range q.keys {
		if k = bound(k); bytes.Compare(s.Least, k) <= 0 && bytes.Compare(k, s.Greatest) <= 0 && s.mayHaveHash(q.hashes[i]) {
			return true
		}
	}
	return len(q.keys) == 0
}

// mayBegin reports whether the segment may have a key with the prefix.
func (s *KeySummary) mayBegin(prefix []byte) bool {
	prefix = bound(prefix)
	return bytes.Compare(prefix, s.Greatest) <= 0 && bytes.Compare(s.Least[:min(len(s.Least), len(prefix))], prefix) <= 0
}

func (s *KeySummary) mayHaveHash(hash uint64) bool {
	for i := range uint64(keyBits) {
		if at := bitOf(hash, i, len(s.Filter)); s.Filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

// bitOf returns the ith bit of a key in a filter of size bytes. In a filter of half the size it
// is the same bit modulo that size, so a filter can be folded.
func bitOf(hash, i uint64, size int) uint64 {
	return (hash + i*(hash>>32|1)) & (uint64(size)*8 - 1)
}

// bound returns as much of a key as bounds keep. It preserves the order of keys.
func bound(key []byte) []byte { return key[:min(len(key), keyBoundBytes)] }

// KeySummaryBuilder builds the summary of one segment.
type KeySummaryBuilder struct {
	summary  KeySummary
	inflated []byte
}

// NewKeySummaryBuilder returns a builder without keys.
func NewKeySummaryBuilder() *KeySummaryBuilder {
	return &KeySummaryBuilder{summary: KeySummary{Filter: make([]byte, MaxKeyFilterBytes)}}
}

// AddEntry adds the keys of an entry's records. If they cannot be read, or reading them takes too
// much memory, the summary covers any key.
func (b *KeySummaryBuilder) AddEntry(payload []byte) {
	e, err := record.ParseEntry(payload)
	if err != nil {
		b.summary.Any = true
	}
	for rest := e.Body; len(rest) > 0 && !b.summary.Any; {
		var batch record.Batch
		if batch, rest, err = record.Split(rest); err != nil || !b.add(batch) {
			b.summary.Any = true
		}
	}
}

// add adds the keys of a batch and reports whether they could be read.
func (b *KeySummaryBuilder) add(batch record.Batch) bool {
	var w record.Walk
	memory, err := w.Begin(batch, b.inflated, inflatedKeyBytes)
	b.inflated = memory[:0]
	if err != nil {
		return false
	}
	for w.Next() {
		if key := w.Key(); key != nil {
			b.addKey(key)
		}
	}
	return w.Err() == nil
}

func (b *KeySummaryBuilder) addKey(key []byte) {
	s := &b.summary
	hash := xxhash.Sum64(key)
	for i := range uint64(keyBits) {
		at := bitOf(hash, i, MaxKeyFilterBytes)
		s.Filter[at/8] |= 1 << (at % 8)
	}
	key = bound(key)
	if s.Least == nil || bytes.Compare(key, s.Least) < 0 {
		s.Least = append([]byte{}, key...)
	}
	if bytes.Compare(key, s.Greatest) > 0 {
		s.Greatest = append(s.Greatest[:0], key...)
	}
}

// Finish returns the summary, with the smallest filter that its keys allow. The builder must not
// be used afterwards.
func (b *KeySummaryBuilder) Finish() *KeySummary {
	s := &b.summary
	set := ones(s.Filter)
	if set == 0 {
		s.Filter = nil
	}
	if all := len(s.Filter) * 8; set > all/10*9 {
		s.Any = true // it would exclude too few keys to be worth reading
	}
	if s.Any {
		return &KeySummary{Any: true}
	}
	for len(s.Filter) > minKeyFilterBytes && ones(s.Filter) <= len(s.Filter)*8/4 {
		half := len(s.Filter) / 2
		for i := range half {
			s.Filter[i] |= s.Filter[half+i]
		}
		s.Filter = s.Filter[:half]
	}
	return s
}

func ones(filter []byte) (n int) {
	for _, b := range filter {
		n += bits.OnesCount8(b)
	}
	return n
}

// KeyAnswer is the result of looking up keys in the complete segment that holds an offset.
type KeyAnswer struct {
	// End is the offset at which the next segment begins. It is 0 if the segment is the newest, or
	// its summary could not be examined.
	End record.Offset
	// Time bounds the leader's times of the segment's entries, in Unix milliseconds: no entry is
	// later.
	Time int64
	// Lacks is set if no record of the segment satisfies the query, Unknown if the segment has no
	// reliable summary.
	Lacks, Unknown bool
}
