package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Walk iterates over the encoded records of a batch and decodes only the requested fields of
// each:
//
//	var w Walk
//	memory, err := w.Begin(batch, memory, limit)
//	for w.Next() { ... w.Key() ... }
//	err = w.Err()
//
// It does not allocate, except to decompress. The batch may be a selection, whose offsets have
// gaps (Selection). It is safe on any bytes, and does not check the CRC.
type Walk struct {
	batch   Batch
	rest    []byte // records behind the current one
	left    int    // number of these according to the batch
	at      int    // offset delta of the current record; -1: none yet
	encoded []byte // the current record
	fields  []byte // the current record from the value on
	parsed  bool   // value and headers are in view
	view    view
	err     error
}

// ErrInflatesBeyond is returned if the decompressed size of a batch exceeds the limit.
var ErrInflatesBeyond = errInflatesBeyond

// Begin starts at the first record of a batch. A compressed batch is decompressed into memory,
// which may grow to limit bytes and, while it grows, takes another 1.25 times as much. Begin
// returns the memory to pass to the next call. The walk's slices alias it or the batch. The error
// is ErrInflatesBeyond, or a *Refusal with reason Corrupt.
func (w *Walk) Begin(b Batch, memory []byte, limit int) ([]byte, error) {
	*w = Walk{at: -1}
	if len(b) < BatchHeaderSize {
		return memory, Refuse(Corrupt, "batch of %d bytes, the header alone has %d", len(b), BatchHeaderSize)
	}
	w.batch, w.left, w.rest = b, b.Count(), b[BatchHeaderSize:]
	if b.Compression() == None {
		return memory, nil
	}
	inflated, err := inflate(memory, b.Compression(), w.rest, min(limit, MaxInflatedBytes))
	if err != nil {
		w.left = 0
		if errors.Is(err, errInflatesBeyond) && limit < MaxInflatedBytes {
			return memory, ErrInflatesBeyond
		}
		return memory, Refuse(Corrupt, "records of a batch: %v", err)
	}
	w.rest = inflated
	return inflated, nil
}

// ClaimsAtMost reports whether a compressed batch inflates to at most limit bytes, by what its
// headers say of it. What they say may be wrong: pass the same limit to Walk.Begin.
func (b Batch) ClaimsAtMost(limit int) bool {
	return len(b) >= BatchHeaderSize && claimsAtMost(b.Compression(), b[BatchHeaderSize:], limit)
}

// Keep copies the records behind the current one to memory of their own, so that the memory which
// Begin returned may be used again.
func (w *Walk) Keep() { w.rest = appendInPieces(make([]byte, 0, len(w.rest)), w.rest) }

// Next moves to the next record. It returns false at the end and after an error.
func (w *Walk) Next() bool {
	if w.left <= 0 || w.err != nil {
		return false
	}
	w.left--
	if err := w.read(); err != nil {
		w.fail(err)
		return false
	}
	return true
}

func (w *Walk) fail(err error) {
	w.err = Refuse(Corrupt, "record after offset delta %d of a batch: %v", w.at, err)
}

// read reads the beginning of a record up to its key.
func (w *Walk) read() error {
	data := w.rest
	length, rest, ok := varint32(data)
	if !ok {
		return errVarint
	}
	if length < 1 || int(length) > len(rest) {
		return errLength
	}
	size := len(data) - len(rest) + int(length)
	w.encoded, w.rest, w.parsed = data[:size:size], data[size:], false
	rest = rest[1:length] // without the attributes
	if w.view.timestampDelta, rest, ok = varint64(rest); !ok {
		return errVarint
	}
	delta, rest, ok := varint32(rest)
	if !ok {
		return errVarint
	}
	if int(delta) <= w.at || int(delta) > w.batch.lastOffsetDelta() {
		return errOrder
	}
	var err error
	if w.view.key, w.fields, err = field(rest); err != nil {
		return err
	}
	w.at = int(delta)
	return nil
}

// parse reads value and headers. An error ends the walk, and the record has neither then.
func (w *Walk) parse() {
	if w.parsed {
		return
	}
	w.parsed = true
	value, rest, err := field(w.fields)
	if err == nil {
		w.view.value, w.view.payload = value, len(w.view.key)+len(value)
		err = w.view.readHeaders(rest)
	}
	if err != nil {
		w.view.value, w.view.headers, w.view.headerCount = nil, nil, 0
		w.fail(err)
	}
}

// Err returns the error that ended the walk early, a *Refusal with reason Corrupt, or nil.
func (w *Walk) Err() error { return w.err }

// Offset returns the offset of the current record.
func (w *Walk) Offset() Offset { return w.batch.BaseOffset() + Offset(w.at) }

// Timestamp returns the time of the current record, in Unix milliseconds.
func (w *Walk) Timestamp() int64 {
	if w.batch.Attributes()&attributeLogAppendTime != 0 {
		return w.batch.MaxTimestamp()
	}
	return w.batch.BaseTimestamp() + w.view.timestampDelta
}

// Key returns the key of the current record, or nil if it has none.
func (w *Walk) Key() []byte { return w.view.key }

// Value returns the value of the current record, or nil if it has none.
func (w *Walk) Value() []byte {
	w.parse()
	return w.view.value
}

// Size returns the total size of key, value and headers of the current record in bytes.
func (w *Walk) Size() int {
	w.parse()
	return w.view.payload
}

// HeaderSizes returns the number of headers of the current record and their encoded size in
// bytes.
func (w *Walk) HeaderSizes() (count, bytes int) {
	w.parse()
	return w.view.headerCount, len(w.view.headers)
}

// Headers yields names and values of the headers without copying. It is an iter.Seq2.
func (w *Walk) Headers(yield func(name, value []byte) bool) {
	w.parse()
	rest := w.view.headers
	for range w.view.headerCount {
		var name, value []byte
		name, rest, _ = field(rest) // known to be well formed
		value, rest, _ = field(rest)
		if !yield(name, value) {
			return
		}
	}
}

// Record decodes the current record. It aliases the memory of the walk.
func (w *Walk) Record() Record {
	w.parse()
	r := Record{Offset: w.Offset(), Timestamp: w.Timestamp(), Key: w.view.key, Value: w.view.value}
	if w.view.headerCount > 0 {
		r.Headers = w.view.decodeHeaders()
	}
	return r
}

// Selected is like Records for a batch that may be a selection. It is an iter.Seq2.
func (b Batch) Selected(yield func(Record, error) bool) {
	var w Walk
	if _, err := w.Begin(b, nil, MaxInflatedBytes); err != nil {
		yield(Record{}, err)
		return
	}
	for w.Next() {
		r := w.Record()
		if w.err != nil {
			break
		}
		if !yield(r, nil) {
			return
		}
	}
	if w.err != nil {
		yield(Record{}, w.err)
	}
}

// RecordsAs returns Selected if the batch may be a selection, and Records otherwise.
func (b Batch) RecordsAs(selected bool) func(func(Record, error) bool) {
	if selected {
		return b.Selected
	}
	return b.Records
}

// VerifyAs is like Verify. If selected is set, the batch may be a selection.
func (b Batch) VerifyAs(selected bool) error {
	if detail := b.faultOfHeader(selected); detail != "" {
		return Refuse(Corrupt, "batch %s", detail)
	}
	return nil
}

// Selection builds batches that contain some of the records of others, as Kafka's compaction
// does: base offset, offset deltas and last offset delta do not change, so a record keeps its
// offset. The records are not compressed.
type Selection struct {
	Bytes []byte // the batches so far; complete after End
	begin int    // start of the newest batch
	count int    // number of its records
}

// Begin starts a batch of records of b.
func (s *Selection) Begin(b Batch) {
	s.begin, s.count = len(s.Bytes), 0
	s.Bytes = append(s.Bytes, b[:BatchHeaderSize]...)
}

// Add adds the current record of the walk over the batch unchanged.
func (s *Selection) Add(w *Walk) {
	s.Bytes = append(s.Bytes, w.encoded...)
	s.count++
}

// AddWith adds the current record of the walk with another key and value, and without its headers
// unless headers is set.
func (s *Selection) AddWith(w *Walk, key, value []byte, headers bool) {
	w.parse()
	rest, count := w.view.headers, w.view.headerCount
	if !headers {
		rest, count = nil, 0
	}
	body := 1 + varintSize(w.view.timestampDelta) + varintSize(int64(w.at)) + lengthSize(key) + len(key) +
		lengthSize(value) + len(value) + varintSize(int64(count)) + len(rest)
	b := binary.AppendVarint(s.Bytes, int64(body))
	b = append(b, 0) // attributes
	b = binary.AppendVarint(b, w.view.timestampDelta)
	b = binary.AppendVarint(b, int64(w.at))
	b = appendField(appendField(b, key), value)
	b = binary.AppendVarint(b, int64(count))
	s.Bytes = append(b, rest...)
	s.count++
}

// Count returns the number of records in the newest batch.
func (s *Selection) Count() int { return s.count }

// Drop removes the newest batch.
func (s *Selection) Drop() { s.Bytes, s.count = s.Bytes[:s.begin], 0 }

// End completes the newest batch. A batch without records is removed.
func (s *Selection) End() {
	if s.count == 0 {
		s.Drop()
		return
	}
	b := Batch(s.Bytes[s.begin:])
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint16(b[21:], uint16(b.Attributes()&^codecMask))
	binary.BigEndian.PutUint32(b[57:], uint32(s.count))
	binary.BigEndian.PutUint32(b[17:], Checksum(b[crcStart:]))
}

// faultOfCount describes what is wrong with the counts of a batch, or returns "". Only a
// selection has fewer records than offsets.
func (b Batch) faultOfCount(selected bool) string {
	n, d := b.Count(), b.lastOffsetDelta()
	if n < 1 || d < n-1 || d > n-1 && !selected {
		return fmt.Sprintf("of %d records, with last offset delta %d", n, d)
	}
	return ""
}
