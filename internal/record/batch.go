package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// BatchHeaderSize is the size of the fixed header of a batch.
const BatchHeaderSize = 61

const (
	lengthEnd = 12 // the length field counts the bytes after itself
	crcStart  = 21 // the CRC covers the bytes from here on
	magicV2   = 2
	codecMask = 0x07
)

// attributes that a producer may not set, by bit.
const (
	attributeLogAppendTime = 1 << 3
	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
)

// Batch is one complete encoded batch in Kafka's record batch format v2, header first. Records
// are sent, stored and served in batches; between producer and reader they are never encoded
// again. All integers of the header are big-endian.
//
//	 0  i64  base offset        of the first record; set by the log
//	 8  i32  length             bytes that follow this field
//	12  i32  leader epoch       set by the log
//	16  i8   magic              2
//	17  u32  CRC-32C            over everything from 21 on
//	21  i16  attributes         0-2 codec, 3 log append time, 4 transactional, 5 control
//	23  i32  last offset delta  record count - 1
//	27  i64  base timestamp     unix ms, of the first record
//	35  i64  max timestamp      unix ms
//	43  i64  producer id        -1: none
//	51  i16  producer epoch     -1: none
//	53  i32  base sequence      -1: none
//	57  i32  record count
//	61  records, see Record; compressed as a whole if the attributes name a codec
//
// The CRC does not cover base offset and leader epoch, so the log sets them without changing or
// reading the rest.
//
// The accessors do not check the batch, which must come from Split or have passed Check or
// Verify.
type Batch []byte

// BaseOffset returns the offset of the first record.
func (b Batch) BaseOffset() Offset { return Offset(binary.BigEndian.Uint64(b)) }

// SetBaseOffset sets the offset of the first record, in place.
func (b Batch) SetBaseOffset(o Offset) { binary.BigEndian.PutUint64(b, uint64(o)) }

// End returns the offset after the last record.
func (b Batch) End() Offset { return b.BaseOffset() + Offset(b.Count()) }

// LeaderEpoch returns the term of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[12:])) }

// SetLeaderEpoch sets the term of the leader, in place.
func (b Batch) SetLeaderEpoch(epoch int32) { binary.BigEndian.PutUint32(b[12:], uint32(epoch)) }

// Count returns the number of records.
func (b Batch) Count() int { return int(int32(binary.BigEndian.Uint32(b[57:]))) }

// Attributes returns the flags of the batch. The codec is the lowest three bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[21:])) }

// Compression returns the codec of the records section, which this program may not support.
func (b Batch) Compression() Codec { return Codec(b.Attributes() & codecMask) }

// BaseTimestamp returns the producer's time of the first record, in Unix milliseconds.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[27:])) }

// MaxTimestamp returns the highest time of a record, in Unix milliseconds. The producer sets it
// and it is not checked. After SetAppendTime it is the time of all records.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[35:])) }

// ProducerID returns the id of Kafka's idempotent producer, or -1 if there is none.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[43:])) }

// ProducerEpoch returns the epoch of Kafka's idempotent producer, or -1 if there is none.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[51:])) }

// BaseSequence returns Kafka's sequence number of the first record, or -1 if there is none.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[53:])) }

func (b Batch) lengthField() int     { return int(int32(binary.BigEndian.Uint32(b[8:]))) }
func (b Batch) crcField() uint32     { return binary.BigEndian.Uint32(b[17:]) }
func (b Batch) lastOffsetDelta() int { return int(int32(binary.BigEndian.Uint32(b[23:]))) }

// Split splits the first batch off a run of contiguous ones. It checks that the header and the
// whole batch are there, and nothing else. The batch aliases run, and rest is what follows it.
// The error is a *Refusal: TooLarge if the batch claims more than MaxBatchBytes, Invalid
// otherwise.
func Split(run []byte) (first Batch, rest []byte, err error) {
	if len(run) < BatchHeaderSize {
		return nil, nil, Refuse(Invalid, "batch of %d bytes, the header alone has %d", len(run), BatchHeaderSize)
	}
	length := Batch(run).lengthField()
	if length < BatchHeaderSize-lengthEnd {
		return nil, nil, Refuse(Invalid, "batch length %d, the header alone needs %d", length, BatchHeaderSize-lengthEnd)
	}
	size := lengthEnd + length
	if size > MaxBatchBytes {
		return nil, nil, tooLarge(MaxBatchBytes, "batch of %d bytes", size)
	}
	if size > len(run) {
		return nil, nil, Refuse(Invalid, "batch of %d bytes is cut short at %d", size, len(run))
	}
	return Batch(run[:size:size]), run[size:], nil
}

// Verify checks that the bytes are those of the batch that was stored: size, magic, CRC, and the
// consistency of codec, record count and last offset delta. It does not read the records, which
// Check validated before the batch was accepted and which the CRC covers. It is meant for bytes
// read from a disk or a server, costs one pass of CRC, and does not allocate. The error is a
// *Refusal with reason Corrupt.
func (b Batch) Verify() error {
	return b.VerifyAs(false)
}

// Check checks everything that a server must know about a received batch before it appends it.
// Besides what Verify checks,
//
//   - the batch has at most MaxBatchBytes and MaxBatchRecords and, decompressed,
//     MaxInflatedBytes;
//   - it is not of a kind that only a broker writes, nor part of a transaction;
//   - the records fill the section exactly, their deltas are 0 to count-1 in
//     order, and each is well formed and has at most MaxRecordBytes.
//
// Timestamps are the producer's and are not checked. An uncompressed batch costs one pass of CRC
// and a walk over the lengths, without allocation; a compressed one is decompressed into memory
// bounded by MaxInflatedBytes. The error is a *Refusal, TooLarge with the limit or Invalid; a
// refused batch is in no log.
func (b Batch) Check() error {
	_, err := b.CheckWithin(MaxInflatedBytes)
	return err
}

// CheckWithin is like Check with memory for the given number of decompressed bytes. It returns
// false and no error for a batch that needs more and may still be valid.
func (b Batch) CheckWithin(inflated int) (within bool, err error) {
	if err := b.checkHeader(); err != nil {
		return true, err
	}
	return b.checkRecords(min(inflated, MaxInflatedBytes))
}

func (b Batch) checkHeader() error {
	if len(b) > MaxBatchBytes {
		return tooLarge(MaxBatchBytes, "batch of %d bytes", len(b))
	}
	if detail := b.faultOfHeader(false); detail != "" {
		return Refuse(Invalid, "batch %s", detail)
	}
	if n := b.Count(); n > MaxBatchRecords {
		return tooLarge(MaxBatchRecords, "batch of %d records", n)
	}
	switch a := b.Attributes(); {
	case a&attributeTransactional != 0:
		return Refuse(Invalid, "transactional batches are not supported")
	case a&attributeControl != 0:
		return Refuse(Invalid, "control batches are not supported")
	case a&attributeLogAppendTime != 0:
		return Refuse(Invalid, "batch has log append time, which only a server may set")
	case a&^codecMask != 0:
		return Refuse(Invalid, "batch has unknown attributes %#x", a&^codecMask)
	}
	return nil
}

// faultOfHeader describes the first fault of the header or the CRC, or returns "".
func (b Batch) faultOfHeader(selected bool) string {
	if len(b) < BatchHeaderSize {
		return fmt.Sprintf("of %d bytes, the header alone has %d", len(b), BatchHeaderSize)
	}
	if n := b.lengthField(); n != len(b)-lengthEnd {
		return fmt.Sprintf("length %d in a batch of %d bytes", n, len(b))
	}
	if magic := b[16]; magic != magicV2 {
		return fmt.Sprintf("magic %d, this program supports %d", magic, magicV2)
	}
	if sum := Checksum(b[crcStart:]); sum != b.crcField() {
		return fmt.Sprintf("CRC %08x, its bytes give %08x", b.crcField(), sum)
	}
	if c := b.Compression(); !c.known() {
		return fmt.Sprintf("with unknown codec %d", uint8(c))
	}
	return b.faultOfCount(selected)
}

// Content returns the SHA-256 of everything that the CRC covers. That excludes the batch's place
// in a log, since the server sets base offset and leader epoch, and magic and length, which are
// implied.
func (b Batch) Content() Content { return sha256.Sum256(b[crcStart:]) }

// Damaged reports whether the checksum of a batch, as Split returns it, does not match its bytes.
// If it is sent again, it may be intact.
func (b Batch) Damaged() bool { return b[16] == magicV2 && Checksum(b[crcStart:]) != b.crcField() }

// SetAppendTime sets the time of all records of a checked batch to the time at which a server
// accepted them, in Unix milliseconds, in place of the producer's.
func (b Batch) SetAppendTime(unixMs int64) {
	binary.BigEndian.PutUint16(b[21:], uint16(b.Attributes()|attributeLogAppendTime))
	binary.BigEndian.PutUint64(b[35:], uint64(unixMs))
	binary.BigEndian.PutUint32(b[17:], Checksum(b[crcStart:]))
}

// Recompress returns a checked batch with its records compressed with another codec, in new
// memory. Everything else stays the same. The error is a *Refusal: TooLarge if the batch would be
// larger than MaxBatchBytes.
func (b Batch) Recompress(c Codec) (Batch, error) {
	section, err := b.section()
	if err == nil && c != None {
		section, err = deflate(nil, c, section)
	}
	if err != nil {
		return nil, Refuse(Invalid, "compress a batch with %s: %v", c, err)
	}
	size := BatchHeaderSize + len(section)
	if size > MaxBatchBytes {
		return nil, tooLarge(MaxBatchBytes, "batch of %d bytes when compressed with %s", size, c)
	}
	out := append(append(make(Batch, 0, size), b[:BatchHeaderSize]...), section...)
	binary.BigEndian.PutUint32(out[8:], uint32(size-lengthEnd))
	binary.BigEndian.PutUint16(out[21:], uint16(b.Attributes()&^codecMask)|uint16(c))
	binary.BigEndian.PutUint32(out[17:], Checksum(out[crcStart:]))
	return out, nil
}

// tooLarge returns the refusal for something over a limit, in the unit of the limit.
func tooLarge(limit int64, format string, args ...any) *Refusal {
	r := Refuse(TooLarge, format, args...)
	r.Detail = fmt.Sprintf("%s, the limit is %d", r.Detail, limit)
	r.Limit = limit
	return r
}
