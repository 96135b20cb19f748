package sequence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"strandline.dev/internal/record"
)

// Check is a condition of an append: from Since to the end of the log, no record has one of the
// keys, a key that begins with one of the prefixes, or one of the headers. NewCheck makes one.
type Check struct {
	// Since is as the client sent it, which refusals name.
	Since record.Offset
	// Search is the result of a search of the committed records; the zero value: there was no
	// search.
	Search Search

	keys, prefixes [][]byte
	headers        []record.Header
	bytes          int // of all of them
}

// Search is the outcome of a search of the committed records for a match, from Check.Since on.
type Search struct {
	// To is where it ended: the records from Since up to it do not match. At most Since: none were searched.
	To record.Offset
	// Found is a match; nil: none is known.
	Found *Match
	// Lacked is the resource that ended the search, if another search may get further. It is empty
	// if another search would not: this one has reached the end or its limit, or a record cannot be
	// read.
	Lacked Lack
}

// Lack is a resource that a search lacked.
type Lack string

const (
	LackedMemory Lack = "memory"
	LackedTime   Lack = "time"
)

// Match is a record that a check does not allow.
type Match struct {
	Offset record.Offset
	Key    []byte // nil: it has none
}

// Limits of a check. The leader compares each prefix with the key of each record since Since.
const (
	MaxCheckConditions = 100
	MaxCheckPrefixes   = 16
	MaxCheckBytes      = 64 << 10 // of all of them together
)

// NewCheck returns a check that keeps its arguments. The error is a *record.Refusal: Invalid or
// TooLarge.
func NewCheck(since record.Offset, keys, prefixes [][]byte, headers []record.Header) (*Check, error) {
	switch n := len(keys) + len(prefixes) + len(headers); {
	case since < 0:
		return nil, record.Refuse(record.Invalid, "the offset of the check, %d, is below 0", since)
	case n == 0:
		return nil, record.Refuse(record.Invalid, "the check has no keys, prefixes or headers")
	case n > MaxCheckConditions:
		return nil, tooLarge(MaxCheckConditions, "the check has %d keys, prefixes and headers, the limit is %d", n, MaxCheckConditions)
	case len(prefixes) > MaxCheckPrefixes:
		return nil, tooLarge(MaxCheckPrefixes, "the check has %d prefixes, the limit is %d", len(prefixes), MaxCheckPrefixes)
	}
	c := &Check{Since: since, keys: keys, prefixes: prefixes, headers: headers}
	for _, of := range [][][]byte{keys, prefixes} {
		for _, text := range of {
			c.bytes += len(text)
		}
	}
	for i := range headers {
		c.bytes += len(headers[i].Key) + len(headers[i].Value)
	}
	if c.bytes > MaxCheckBytes {
		return nil, tooLarge(MaxCheckBytes, "the keys, prefixes and headers of the check have %d bytes, the limit is %d", c.bytes, MaxCheckBytes)
	}
	return c, nil
}

// from returns the offset from which the check must still be decided: the records below do not
// match.
func (c *Check) from() record.Offset { return max(c.Since, c.Search.To) }

// Digest identifies what the check is for, from Since on: no two checks that differ have the same.
func (c *Check) Digest() [sha256.Size]byte {
	of := binary.AppendVarint(nil, int64(c.Since))
	text := func(s []byte) {
		of = binary.AppendUvarint(of, uint64(len(s)))
		of = append(of, s...)
	}
	for _, texts := range [][][]byte{c.keys, c.prefixes} {
		of = binary.AppendUvarint(of, uint64(len(texts)))
		for _, s := range texts {
			text(s)
		}
	}
	for i := range c.headers {
		h := &c.headers[i]
		text([]byte(h.Key))
		if h.Value == nil {
			of = append(of, 0)
			continue
		}
		of = append(of, 1)
		text(h.Value)
	}
	return sha256.Sum256(of)
}

// Bytes returns the size of keys, prefixes and headers.
func (c *Check) Bytes() int { return c.bytes }

func tooLarge(limit int64, format string, args ...any) *record.Refusal {
	r := record.Refuse(record.TooLarge, format, args...)
	r.Limit = limit
	return r
}

// Keys returns keys and prefixes such that a record matches only if its key is one of the keys or
// begins with one of the prefixes. ok is false if a record with any other key may match, too.
func (c *Check) Keys() (keys, prefixes [][]byte, ok bool) {
	return c.keys, c.prefixes, len(c.headers) == 0
}

// Matches reports whether the current record of a walk matches. Its offset is not compared.
func (c *Check) Matches(w *record.Walk) bool {
	if key := w.Key(); key != nil {
		if slices.ContainsFunc(c.keys, func(k []byte) bool { return bytes.Equal(k, key) }) || c.begins(key) {
			return true
		}
	}
	if len(c.headers) == 0 {
		return false
	}
	for name, value := range w.Headers {
		for i := range c.headers {
			h := &c.headers[i]
			if string(name) == h.Key && bytes.Equal(value, h.Value) && (value == nil) == (h.Value == nil) {
				return true
			}
		}
	}
	return false
}

// begins reports whether a key begins with one of the prefixes.
func (c *Check) begins(key []byte) bool {
	return slices.ContainsFunc(c.prefixes, func(p []byte) bool { return bytes.HasPrefix(key, p) })
}

// decideCheck refuses an append whose check does not hold, or cannot be decided.
func (s appends) decideCheck(c *Check) *record.Refusal {
	if c.Since > s.log.end {
		r := record.Refuse(record.OffsetBeyondEnd, "the check is since offset %d, but the log ends at %d", c.Since, s.log.end)
		r.End = s.log.end
		return r
	}
	kept, from := s.KeepKeys(), c.from()
	match := c.Search.Found
	if match == nil && from >= kept {
		match = s.recent.find(c)
	}
	switch {
	case match != nil:
		return conflict(c, match)
	case from >= kept:
		return nil
	case c.Search.Lacked != "":
		r := record.Refuse(record.Busy, "the check is since offset %d, but the log keeps keys from offset %d on, and the search below ended at offset %d for lack of %s: "+
			"send the append again, or read up to offset %d and check since there", c.Since, kept, from, c.Search.Lacked, kept)
		if from > c.Since {
			r.Start = from
		}
		return r
	}
	r := record.Refuse(record.CheckTooOld, "the check is since offset %d, but the log keeps keys from offset %d on: read up to there, and check since there", c.Since, kept)
	r.Start = kept
	return r
}

func conflict(c *Check, m *Match) *record.Refusal {
	key := "without a key"
	if m.Key != nil {
		key = fmt.Sprintf("with key %.64q", m.Key)
	}
	r := record.Refuse(record.Conflict, "the record at offset %d, %s, matches the check since offset %d: read from there and decide again", m.Offset, key, c.Since)
	if r.At = m.Offset; len(m.Key) <= record.MaxConflictKey {
		r.Key = m.Key
	}
	return r
}
