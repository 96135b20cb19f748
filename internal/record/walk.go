package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Walk reads the records of a batch where they lie, one after the other, and decodes of
// each only what is asked for:
//
//	var w Walk
//	memory, err := w.Begin(batch, memory, limit)
//	for w.Next() { ... w.Key() ... }
//	err = w.Err()
//
// It allocates nothing, except to inflate. The batch may be a selection, whose offsets
// have gaps (Selection). It is safe on any bytes, and does not look at the CRC.
type Walk struct {
	batch   Batch
	rest    []byte // records behind the newest
	left    int    // of them, as the batch says
	at      int    // offset delta of the newest; -1: none yet
	encoded []byte // the newest as it lies
	fields  []byte // of the newest, from the value on
	parsed  bool   // value and headers are in view
	view    view
	err     error
}

// ErrInflatesBeyond: a batch inflates to more than the limit.
var ErrInflatesBeyond = errInflatesBeyond

// Begin starts with the first record of a batch. A compressed one is inflated into
// memory, which may grow to limit bytes and, while it grows, 1.25 times as much again; what
// is returned is the memory to be used next time. The walk's slices alias it, or the
// batch. The error is ErrInflatesBeyond or a *Refusal with reason Corrupt.
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

// Next moves to the next record. It reports false at the end and after an error.
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
	w.err = Refuse(Corrupt, "record behind offset delta %d of a batch: %v", w.at, err)
}

// read takes the head of a record up to its key.
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

// parse reads value and headers. What is wrong with them ends the walk: the record has
// neither then.
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

// Err is what ended the walk early, a *Refusal with reason Corrupt.
func (w *Walk) Err() error { return w.err }

// Offset is that of the newest record.
func (w *Walk) Offset() Offset { return w.batch.BaseOffset() + Offset(w.at) }

// Timestamp is that of the newest record, in unix ms.
func (w *Walk) Timestamp() int64 {
	if w.batch.Attributes()&attributeLogAppendTime != 0 {
		return w.batch.MaxTimestamp()
	}
	return w.batch.BaseTimestamp() + w.view.timestampDelta
}

// Key is that of the newest record; nil: none.
func (w *Walk) Key() []byte { return w.view.key }

// Value is that of the newest record; nil: none.
func (w *Walk) Value() []byte {
	w.parse()
	return w.view.value
}

// Size is the bytes of key, value and headers together.
func (w *Walk) Size() int {
	w.parse()
	return w.view.payload
}

// HeaderSizes is how many headers the newest record has, and how many bytes they take as they
// lie.
func (w *Walk) HeaderSizes() (count, bytes int) {
	w.parse()
	return w.view.headerCount, len(w.view.headers)
}

// Headers yields names and values of the headers where they lie. It is an iter.Seq2.
func (w *Walk) Headers(yield func(name, value []byte) bool) {
	w.parse()
	rest := w.view.headers
	for range w.view.headerCount {
		var name, value []byte
		name, rest, _ = field(rest) // proved well formed
		value, rest, _ = field(rest)
		if !yield(name, value) {
			return
		}
	}
}

// Record decodes the newest record. It aliases what the walk does.
func (w *Walk) Record() Record {
	w.parse()
	r := Record{Offset: w.Offset(), Timestamp: w.Timestamp(), Key: w.view.key, Value: w.view.value}
	if w.view.headerCount > 0 {
		r.Headers = w.view.decodeHeaders()
	}
	return r
}

// Selected yields the records of a batch that may be a selection. It is an iter.Seq2, and
// otherwise as Records.
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

// RecordsAs is Selected for a batch that may be a selection, and Records for any other.
func (b Batch) RecordsAs(selected bool) func(func(Record, error) bool) {
	if selected {
		return b.Selected
	}
	return b.Records
}

// VerifyAs is Verify for a batch that may be a selection.
func (b Batch) VerifyAs(selected bool) error {
	if detail := b.faultOfHeader(selected); detail != "" {
		return Refuse(Corrupt, "batch %s", detail)
	}
	return nil
}

// Selection writes batches of some of the records of others, one after the other, as Kafka's
// compaction does: base offset, offset deltas and last offset delta stay as they were,
// so that a record keeps its offset. The records are not compressed.
type Selection struct {
	Bytes []byte // the batches so far; they are whole after End
	begin int    // of the newest batch
	count int    // its records
}

// Begin starts a batch of records of b.
func (s *Selection) Begin(b Batch) {
	s.begin, s.count = len(s.Bytes), 0
	s.Bytes = append(s.Bytes, b[:BatchHeaderSize]...)
}

// Add takes the newest record of the walk over the batch as it is.
func (s *Selection) Add(w *Walk) {
	s.Bytes = append(s.Bytes, w.encoded...)
	s.count++
}

// AddWith takes the newest record of the walk with another key and value, and without
// its headers if they are not wanted.
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

// Count is how many records the newest batch has.
func (s *Selection) Count() int { return s.count }

// Drop takes the newest batch back.
func (s *Selection) Drop() { s.Bytes, s.count = s.Bytes[:s.begin], 0 }

// End completes the newest batch; without records it is dropped.
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

// faultOfCount names what is wrong with the numbers of a batch, or nothing. Only a
// selection has fewer records than offsets.
func (b Batch) faultOfCount(selected bool) string {
	n, d := b.Count(), b.lastOffsetDelta()
	if n < 1 || d < n-1 || d > n-1 && !selected {
		return fmt.Sprintf("of %d records, with last offset delta %d", n, d)
	}
	return ""
}
