package record

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The tests compare with kmsg, the encoding that the franz-go client
// generates from Kafka's own protocol definitions.

// kafkaRecords encodes a records section. The first record's timestamp is the
// base.
func kafkaRecords(records []Record) []byte {
	var section []byte
	for i, r := range records {
		encoded := kmsg.Record{
			TimestampDelta64: r.Timestamp - records[0].Timestamp,
			OffsetDelta:      int32(i),
			Key:              r.Key,
			Value:            r.Value,
		}
		for _, h := range r.Headers {
			encoded.Headers = append(encoded.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		encoded.Length = int32(len(encoded.AppendTo(nil)) - 1) // its own varint, of 0, takes a byte
		section = encoded.AppendTo(section)
	}
	return section
}

// kafkaBatch encodes a batch around a records section. change may alter the
// header before length and CRC are computed.
func kafkaBatch(records []Record, section []byte, change func(*kmsg.RecordBatch)) Batch {
	highest := records[0].Timestamp
	for _, r := range records {
		highest = max(highest, r.Timestamp)
	}
	batch := kmsg.RecordBatch{
		Length:               int32(BatchHeaderSize - 12 + len(section)),
		PartitionLeaderEpoch: -1,
		Magic:                2,
		LastOffsetDelta:      int32(len(records) - 1),
		FirstTimestamp:       records[0].Timestamp,
		MaxTimestamp:         highest,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           int32(len(records)),
		Records:              section,
	}
	if change != nil {
		change(&batch)
	}
	return resum(batch.AppendTo(nil))
}

// resum writes the right CRC into an encoded batch.
func resum(b Batch) Batch {
	sum := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(b[17:], sum)
	return b
}

// sampleRecords has every shape of a record: null, empty and plain fields,
// headers, times that go back, lengths of one and of several varint bytes.
func sampleRecords() []Record {
	return []Record{
		{Timestamp: 1_700_000_000_000, Key: []byte("a key"), Value: []byte("a value")},
		{Timestamp: 1_700_000_000_005},
		{Timestamp: 1_699_999_000_000, Key: []byte{}, Value: []byte{}},
		{Timestamp: 1_700_000_123_456, Value: make([]byte, 300), Headers: []Header{
			{Key: "trace", Value: []byte{1, 2, 3}},
			{Key: "", Value: []byte{}},
			{Key: "null", Value: nil},
		}},
		{Timestamp: 1_700_000_000_005, Value: []byte("the last one")},
	}
}

func build(t testing.TB, c Codec, records ...Record) Batch {
	t.Helper()
	var b Builder
	for _, r := range records {
		require.NoError(t, b.Add(r))
	}
	batch, err := b.Finish(c)
	require.NoError(t, err)
	return batch
}

// collect reads a batch to its end.
func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	var records []Record
	for r, err := range b.Records {
		require.NoError(t, err)
		records = append(records, r)
	}
	return records
}

// withOffsets returns records as a reader should see them.
func withOffsets(base Offset, records []Record) []Record {
	placed := make([]Record, len(records))
	for i, r := range records {
		r.Offset = base + Offset(i)
		placed[i] = r
	}
	return placed
}

func requireReason(t testing.TB, err error, want Reason) {
	t.Helper()
	require.ErrorIs(t, err, &Refusal{Reason: want})
}
