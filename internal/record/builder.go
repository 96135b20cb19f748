package record

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Builder encodes records into one batch after another. The zero value is ready to use and
// allocates its memory; after Reset it uses the caller's, and then a record costs no allocation.
// It is not safe for concurrent use.
type Builder struct {
	buffer        []byte // header room, then the records so far; empty before the first
	count         int
	baseTimestamp int64
	maxTimestamp  int64
}

// Reset discards the records added so far and starts a batch in dst[:0], which may be nil. The
// builder owns the memory until Finish returns it.
func (b *Builder) Reset(dst []byte) {
	*b = Builder{buffer: dst[:0]}
}

// Count returns the number of records added since the last Reset or Finish.
func (b *Builder) Count() int { return b.count }

// Size returns the encoded size of the batch so far, uncompressed, in bytes.
func (b *Builder) Size() int { return max(len(b.buffer), BatchHeaderSize) }

// Add appends a record. Its Offset is ignored: the record gets the next index. Key, value and
// headers are copied. The error is a *Refusal TooLarge if the record exceeds MaxRecordBytes, or
// if with it the batch would exceed MaxBatchBytes or MaxBatchRecords; the batch is then
// unchanged.
func (b *Builder) Add(r Record) error {
	payload, body := measure(&r)
	if payload > MaxRecordBytes {
		return tooLarge(MaxRecordBytes, "record of %d bytes", payload)
	}
	if b.count == MaxBatchRecords {
		return tooLarge(MaxBatchRecords, "batch of %d records", b.count+1)
	}
	if b.count == 0 {
		b.baseTimestamp, b.maxTimestamp = r.Timestamp, r.Timestamp
	}
	timestampDelta := r.Timestamp - b.baseTimestamp
	body += varintSize(timestampDelta) + varintSize(int64(b.count))
	size := varintSize(int64(body)) + body
	if b.Size()+size > MaxBatchBytes {
		return tooLarge(MaxBatchBytes, "batch of %d bytes", b.Size()+size)
	}

	buf := b.buffer
	if len(buf) == 0 {
		var header [BatchHeaderSize]byte
		buf = append(buf, header[:]...)
	}
	buf = binary.AppendVarint(buf, int64(body))
	buf = append(buf, 0) // attributes
	buf = binary.AppendVarint(buf, timestampDelta)
	buf = binary.AppendVarint(buf, int64(b.count))
	buf = appendField(buf, r.Key)
	buf = appendField(buf, r.Value)
	buf = binary.AppendVarint(buf, int64(len(r.Headers)))
	for i := range r.Headers {
		buf = binary.AppendVarint(buf, int64(len(r.Headers[i].Key)))
		buf = append(buf, r.Headers[i].Key...)
		buf = appendField(buf, r.Headers[i].Value)
	}
	b.buffer = buf
	b.count++
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	return nil
}

// Finish completes the batch, with its records compressed with c, at base offset 0, leader epoch
// -1 and without a producer id. The caller owns its memory; the builder is empty afterwards. The
// error is a *Refusal: Invalid if there is no record or the codec is unknown, TooLarge if
// compression made the batch larger than MaxBatchBytes; the builder is then unchanged.
func (b *Builder) Finish(c Codec) (Batch, error) {
	if b.count == 0 {
		return nil, Refuse(Invalid, "the batch has no records")
	}
	if !c.known() {
		return nil, Refuse(Invalid, "unknown codec %d", uint8(c))
	}
	batch := Batch(b.buffer)
	if c != None {
		scratch := takeScratch()
		defer scratch.giveBack()
		compressed, err := deflate(scratch.bytes, c, batch[BatchHeaderSize:])
		if err != nil {
			return nil, fmt.Errorf("compress a batch with %s: %w", c, err)
		}
		scratch.bytes = compressed
		if size := BatchHeaderSize + len(compressed); size > MaxBatchBytes {
			return nil, tooLarge(MaxBatchBytes, "batch of %d bytes when compressed", size)
		}
		batch = append(batch[:BatchHeaderSize], compressed...)
	}
	binary.BigEndian.PutUint64(batch, 0)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-lengthEnd))
	batch.SetLeaderEpoch(-1)
	batch[16] = magicV2
	binary.BigEndian.PutUint16(batch[21:], uint16(c))
	binary.BigEndian.PutUint32(batch[23:], uint32(b.count-1))
	binary.BigEndian.PutUint64(batch[27:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(batch[35:], uint64(b.maxTimestamp))
	for i := 43; i < 57; i++ {
		batch[i] = 0xff // producer id, producer epoch and base sequence: -1
	}
	binary.BigEndian.PutUint32(batch[57:], uint32(b.count))
	binary.BigEndian.PutUint32(batch[17:], Checksum(batch[crcStart:]))
	*b = Builder{}
	return batch, nil
}

// MaxEncodedSize returns an upper bound of the size of an encoded record: all fields but key,
// value and headers take at most 36 bytes, and every header at most 10 besides its own.
func MaxEncodedSize(key, value []byte, headers []Header) int {
	size := 36 + len(key) + len(value)
	for i := range headers {
		size += 10 + len(headers[i].Key) + len(headers[i].Value)
	}
	return size
}

// measure returns the total bytes of key, value and headers, and the size of the record's body
// without its timestamp and offset delta.
func measure(r *Record) (payload, body int) {
	payload = len(r.Key) + len(r.Value)
	body = 1 + lengthSize(r.Key) + lengthSize(r.Value) + varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		payload += len(h.Key) + len(h.Value)
		body += varintSize(int64(len(h.Key))) + lengthSize(h.Value)
	}
	return payload, payload + body
}

func appendField(dst, value []byte) []byte {
	if value == nil {
		return append(dst, 1) // -1, zigzag
	}
	dst = binary.AppendVarint(dst, int64(len(value)))
	return append(dst, value...)
}

// lengthSize returns the size of the length field of value.
func lengthSize(value []byte) int {
	return varintSize(int64(len(value))) // null takes one byte, as empty does
}

// varintSize returns the size of v as a zigzag varint.
func varintSize(v int64) int {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}
