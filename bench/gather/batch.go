package gather

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A record batch of format v2, numbers big-endian:
//
//	 0  offset of the first record, 8      27  first timestamp, 8
//	 8  size of what follows, 4            35  last timestamp, 8
//	12  leader epoch, 4                    43  producer id, 8; epoch, 2; sequence, 4
//	16  the format, 2                      57  count of records, 4
//	17  CRC of all from 21 on, 4           61  the records
//	21  attributes, 2
//	23  offset of the last less the first, 4
//
// A record begins with its length, its attributes, and its timestamp and offset
// less the batch's first; all but the attributes are zigzag varints.
const (
	sizeAt      = 8
	epochAt     = 12
	magicAt     = 16
	crcAt       = 17
	attributeAt = 21
	deltaAt     = 23
	firstTimeAt = 27
	lastTimeAt  = 35
	producerAt  = 43
	countAt     = 57
	recordsAt   = 61

	magic       = 2
	plainBatch  = 0 // attributes: not compressed, not transactional, time of creation
	notNumbered = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is what is known of a producer's batch.
type batch struct {
	firstTime, lastTime int64
	count               int
}

// readBatch looks at one batch and everything in it, so that merge can rely on
// it. The error is one of Kafka's.
func readBatch(b []byte) (batch, error) {
	switch {
	case len(b) < recordsAt || b[magicAt] != magic,
		int64(binary.BigEndian.Uint32(b[sizeAt:])) != int64(len(b)-epochAt),
		crc32.Checksum(b[attributeAt:], castagnoli) != binary.BigEndian.Uint32(b[crcAt:]):
		return batch{}, kerr.CorruptMessage
	case binary.BigEndian.Uint16(b[attributeAt:]) != plainBatch:
		return batch{}, kerr.UnsupportedCompressionType
	case int64(binary.BigEndian.Uint64(b[producerAt:])) != notNumbered:
		return batch{}, kerr.UnsupportedForMessageFormat
	}
	known := batch{
		firstTime: int64(binary.BigEndian.Uint64(b[firstTimeAt:])),
		lastTime:  int64(binary.BigEndian.Uint64(b[lastTimeAt:])),
	}
	for rest := b[recordsAt:]; len(rest) > 0; known.count++ {
		r, ok := readRecord(rest)
		if !ok {
			return batch{}, kerr.CorruptMessage
		}
		rest = rest[r.size:]
	}
	if known.count == 0 || known.count != int(int32(binary.BigEndian.Uint32(b[countAt:]))) {
		return batch{}, kerr.CorruptMessage
	}
	return known, nil
}

// head is the beginning of a record, whose numbers change when it is moved.
type head struct {
	size       int // of the whole record, its length included
	attributes byte
	time       int64
	rest       int // where what does not change begins
}

func readRecord(b []byte) (head, bool) {
	length, n := binary.Varint(b)
	if n <= 0 || length < 1 || length > int64(len(b)-n) {
		return head{}, false
	}
	h := head{size: n + int(length), attributes: b[n]}
	at := n + 1
	time, n := binary.Varint(b[at:h.size])
	if n <= 0 {
		return head{}, false
	}
	at += n
	_, n = binary.Varint(b[at:h.size])
	if n <= 0 {
		return head{}, false
	}
	h.time, h.rest = time, at+n
	return h, true
}

// merge appends to out one batch with the records of all parts, in order.
func merge(out []byte, parts []*part) []byte {
	out = append(out, make([]byte, recordsAt)...)
	firstTime, lastTime := parts[0].batch.firstTime, parts[0].batch.lastTime
	count := 0
	for _, p := range parts {
		lastTime = max(lastTime, p.batch.lastTime)
		for rest := p.records[recordsAt:]; len(rest) > 0; count++ {
			h, _ := readRecord(rest) // readBatch has seen it
			out = appendRecord(out, rest[:h.size], h, p.batch.firstTime+h.time-firstTime, int64(count))
			rest = rest[h.size:]
		}
	}
	binary.BigEndian.PutUint32(out[sizeAt:], uint32(len(out)-epochAt))
	binary.BigEndian.PutUint32(out[epochAt:], ^uint32(0))
	out[magicAt] = magic
	binary.BigEndian.PutUint32(out[deltaAt:], uint32(count-1))
	binary.BigEndian.PutUint64(out[firstTimeAt:], uint64(firstTime))
	binary.BigEndian.PutUint64(out[lastTimeAt:], uint64(lastTime))
	for i := producerAt; i < countAt; i++ {
		out[i] = 0xff // no producer, no epoch, no sequence
	}
	binary.BigEndian.PutUint32(out[countAt:], uint32(count))
	binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[attributeAt:], castagnoli))
	return out
}

func appendRecord(out, record []byte, h head, time, offset int64) []byte {
	var numbers [1 + 2*binary.MaxVarintLen64]byte
	changed := append(numbers[:0], h.attributes)
	changed = binary.AppendVarint(changed, time)
	changed = binary.AppendVarint(changed, offset)
	rest := record[h.rest:]
	out = binary.AppendVarint(out, int64(len(changed)+len(rest)))
	out = append(out, changed...)
	return append(out, rest...)
}
