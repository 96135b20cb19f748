package segment

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"strandline.dev/internal/record"
)

const (
	// MaxKeyFilterBytes bounds the filter of a summary: enough for 200,000 keys at one false
	// answer in a hundred, and for 400,000 at one in ten.
	MaxKeyFilterBytes = 256 << 10
	minKeyFilterBytes = 64
	// keyBits is how many bits of a filter a key sets.
	keyBits = 7
	// keyBoundBytes is how much of the least and the greatest key a summary keeps.
	keyBoundBytes = 64
	// inflatedKeyBytes bounds what a batch inflates to whose keys are looked at.
	inflatedKeyBytes = 4 << 20
	// SummaryChunk is how much is read at once of a segment that is summarized.
	SummaryChunk = 1 << 20
	// SummaryRoom is the memory that it takes to summarize a segment.
	SummaryRoom = MaxKeyFilterBytes + inflatedKeyBytes*9/4 + SummaryChunk
)

// KeySummary says which keys the records of a segment may have. It may name keys that are
// not there, and never leaves one out that is.
type KeySummary struct {
	// Any: there may be any key, and the rest says nothing.
	Any bool
	// Least and Greatest are the first 64 bytes of the least and of the greatest key.
	Least, Greatest []byte
	// Filter is a Bloom filter of the keys: a power of two of bytes; none if there is no key.
	Filter []byte
}

// KeyQuery is what a read wants of keys: one of several, a beginning of several, or both.
type KeyQuery struct {
	keys     [][]byte
	hashes   []uint64 // of the keys
	prefixes [][]byte
	// Read counts the bytes of summaries that were read for it.
	Read int
}

// NewKeyQuery returns nil if any key is wanted.
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

// MayHave reports whether a record may be there that the query wants.
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

// mayBegin reports whether a key may begin with the prefix.
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

// bitOf is the ith bit of a key. In half a filter it is the same one less the half: so a
// filter can be folded.
func bitOf(hash, i uint64, size int) uint64 {
	return (hash + i*(hash>>32|1)) & (uint64(size)*8 - 1)
}

// bound is as much of a key as bounds have. It keeps the order of keys.
func bound(key []byte) []byte { return key[:min(len(key), keyBoundBytes)] }

// KeySummaryBuilder makes the summary of one segment.
type KeySummaryBuilder struct {
	summary  KeySummary
	inflated []byte
}

// NewKeySummaryBuilder begins with no keys.
func NewKeySummaryBuilder() *KeySummaryBuilder {
	return &KeySummaryBuilder{summary: KeySummary{Filter: make([]byte, MaxKeyFilterBytes)}}
}

// AddEntry adds the keys of an entry's records. Where they cannot be read, or take too much
// memory, the segment may have any key.
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

// add reports whether the keys of a batch could be read.
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

// Finish returns the summary, with a filter that is as small as its keys allow. The builder
// must not be used after.
func (b *KeySummaryBuilder) Finish() *KeySummary {
	s := &b.summary
	set := ones(s.Filter)
	if set == 0 {
		s.Filter = nil
	}
	if all := len(s.Filter) * 8; set > all/10*9 {
		s.Any = true // it would say no too rarely
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

// KeyAnswer says of a sealed segment, from an offset on, whether a read by key has to read it.
type KeyAnswer struct {
	// End is the offset at which the segment behind it begins; 0: the segment is the newest, or
	// could not be looked at.
	End record.Offset
	// Time is the leader's, unix ms: no entry of it is later.
	Time int64
	// Lacks: no record of it is wanted. Unknown: it has no summary that can be relied on.
	Lacks, Unknown bool
}
