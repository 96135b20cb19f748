package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Record is a record as applications see it. A nil Key or Value is Kafka's null, which differs
// from an empty one.
type Record struct {
	Offset    Offset
	Timestamp int64 // the producer's time, Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is a name and value that are stored with a record. Names may repeat.
type Header struct {
	Key   string
	Value []byte
}

// Records iterates over the records of a batch, in order of offset:
//
//	for r, err := range batch.Records { ... }
//
// Keys and values alias the batch or, if it is compressed, memory that was allocated for this
// iteration and stays valid after it. A record without headers costs no allocation; an
// uncompressed batch costs none at all. The iteration ends after an error, which is a *Refusal
// with reason Corrupt. Records is safe on any bytes, but does not check the CRC.
func (b Batch) Records(yield func(Record, error) bool) {
	section, err := b.section()
	if err != nil {
		yield(Record{}, Refuse(Corrupt, "records of a batch: %v", err))
		return
	}
	var v view
	for i := range b.Count() {
		if err := v.read(section, i); err != nil {
			yield(Record{}, Refuse(Corrupt, "record %d of a batch: %v", i, err))
			return
		}
		section = section[v.size:]
		r := Record{
			Offset:    b.BaseOffset() + Offset(i),
			Timestamp: b.BaseTimestamp() + v.timestampDelta,
			Key:       v.key,
			Value:     v.value,
		}
		if b.Attributes()&attributeLogAppendTime != 0 {
			r.Timestamp = b.MaxTimestamp()
		}
		if v.headerCount > 0 {
			r.Headers = v.decodeHeaders()
		}
		if !yield(r, nil) {
			return
		}
	}
}

// section returns the encoded records. Decompressed ones are in newly allocated memory: readers
// keep slices of it.
func (b Batch) section() ([]byte, error) {
	if len(b) < BatchHeaderSize {
		return nil, fmt.Errorf("%d bytes, the header alone has %d", len(b), BatchHeaderSize)
	}
	if b.Compression() == None {
		return b[BatchHeaderSize:], nil
	}
	scratch := takeScratch()
	defer scratch.giveBack()
	inflated, err := inflate(scratch.bytes, b.Compression(), b[BatchHeaderSize:], MaxInflatedBytes)
	if err != nil || cap(inflated) > scratchKept {
		return inflated, err
	}
	scratch.bytes = inflated
	return bytes.Clone(inflated), nil
}

// checkRecords checks the records for Check.
func (b Batch) checkRecords(limit int) (within bool, err error) {
	section := b[BatchHeaderSize:]
	if c := b.Compression(); c != None {
		scratch := takeScratch()
		defer scratch.giveBack()
		inflated, err := inflate(scratch.bytes, c, section, limit)
		if errors.Is(err, errInflatesBeyond) {
			if limit < MaxInflatedBytes {
				return false, nil
			}
			return true, tooLarge(MaxInflatedBytes, "batch that inflates to more")
		}
		if err != nil {
			return true, Refuse(Invalid, "batch compressed with %s: %v", c, err)
		}
		scratch.bytes, section = inflated, inflated
	}
	return true, checkSection(section, b.Count())
}

func checkSection(section []byte, count int) error {
	var v view
	for i := range count {
		if err := v.read(section, i); err != nil {
			return Refuse(Invalid, "record %d of a batch: %v", i, err)
		}
		if v.payload > MaxRecordBytes {
			return tooLarge(MaxRecordBytes, "record %d of %d bytes", i, v.payload)
		}
		section = section[v.size:]
	}
	if len(section) > 0 {
		return Refuse(Invalid, "%d bytes after the last of %d records", len(section), count)
	}
	return nil
}

// view is one encoded record. Lengths and deltas are zigzag varints; a length of -1 means null.
//
//	length           varint32  bytes that follow this field
//	attributes       i8        unused
//	timestamp delta  varint64  to the base timestamp, ms
//	offset delta     varint32  to the base offset: the record's index
//	key              varint32 length, bytes
//	value            varint32 length, bytes
//	header count     varint32
//	headers          each: key (never null) and value, like the above
type view struct {
	size           int // of the whole encoded record
	payload        int // key, value and headers together, without framing
	timestampDelta int64
	key, value     []byte
	headerCount    int
	headers        []byte // headerCount encoded headers, known to be well formed
}

var (
	errVarint     = errors.New("a number is cut short or too long")
	errLength     = errors.New("a length exceeds the remaining bytes")
	errOrder      = errors.New("the offset delta is not the index of the record")
	errLeftover   = errors.New("bytes follow the last header")
	errNullHeader = errors.New("a header has no key")
)

// read fills the view with the record at the beginning of data, which must be the index-th of its
// batch. All slices alias data.
func (v *view) read(data []byte, index int) error {
	length, rest, ok := varint32(data)
	if !ok {
		return errVarint
	}
	if length < 1 || int(length) > len(rest) {
		return errLength
	}
	v.size = len(data) - len(rest) + int(length)
	rest = rest[1:length] // without the attributes

	if v.timestampDelta, rest, ok = varint64(rest); !ok {
		return errVarint
	}
	delta, rest, ok := varint32(rest)
	if !ok {
		return errVarint
	}
	if int(delta) != index {
		return errOrder
	}
	var err error
	if v.key, rest, err = field(rest); err != nil {
		return err
	}
	if v.value, rest, err = field(rest); err != nil {
		return err
	}
	v.payload = len(v.key) + len(v.value)
	return v.readHeaders(rest)
}

// readHeaders checks that data is a header count and that many headers.
func (v *view) readHeaders(data []byte) error {
	count, rest, ok := varint32(data)
	if !ok {
		return errVarint
	}
	if count < 0 {
		return errLength
	}
	v.headerCount, v.headers = int(count), rest
	for range v.headerCount {
		var key, value []byte
		var err error
		if key, rest, err = field(rest); err != nil {
			return err
		}
		if key == nil {
			return errNullHeader
		}
		if value, rest, err = field(rest); err != nil {
			return err
		}
		v.payload += len(key) + len(value)
	}
	if len(rest) > 0 {
		return errLeftover
	}
	return nil
}

// decodeHeaders copies the headers out of a view that was read without error. The count is safe
// to allocate, since that many headers have been checked.
func (v *view) decodeHeaders() []Header {
	headers := make([]Header, v.headerCount)
	rest := v.headers
	for i := range headers {
		var key []byte
		key, rest, _ = field(rest)
		headers[i].Key = string(key)
		headers[i].Value, rest, _ = field(rest)
	}
	return headers
}

// field reads a length and that many bytes. Null is nil; an empty field is not.
func field(data []byte) (value, rest []byte, err error) {
	n, rest, ok := varint32(data)
	switch {
	case !ok:
		return nil, nil, errVarint
	case n == -1:
		return nil, rest, nil
	case n < 0 || int(n) > len(rest):
		return nil, nil, errLength
	}
	return rest[:n:n], rest[n:], nil
}

// varint32 reads a zigzag varint of at most five bytes. Longer encodings of a small number are
// refused because Kafka's clients refuse them: one such record would stop every reader of the
// log.
func varint32(data []byte) (int32, []byte, bool) {
	if len(data) > 0 && data[0] < 0x80 {
		u := uint32(data[0])
		return int32(u>>1) ^ -int32(u&1), data[1:], true
	}
	u, n := binary.Uvarint(data)
	if n <= 0 || n > 5 || u > 1<<32-1 {
		return 0, nil, false
	}
	return int32(uint32(u)>>1) ^ -int32(u&1), data[n:], true
}

func varint64(data []byte) (int64, []byte, bool) {
	n64, n := binary.Varint(data)
	if n <= 0 {
		return 0, nil, false
	}
	return n64, data[n:], true
}
