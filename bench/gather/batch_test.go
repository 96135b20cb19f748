package gather

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// encode is a batch as franz-go's types write it, with a record for each value,
// a millisecond apart.
func encode(t *testing.T, firstTime int64, values ...string) []byte {
	t.Helper()
	var records []byte
	for i, value := range values {
		r := kmsg.Record{TimestampDelta64: int64(i), OffsetDelta: int32(i), Key: []byte("k"), Value: []byte(value)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: magic, LastOffsetDelta: int32(len(values) - 1),
		FirstTimestamp: firstTime, MaxTimestamp: firstTime + int64(len(values)-1),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)), Records: records,
	}
	raw := b.AppendTo(nil)
	seal(raw)
	return raw
}

func seal(raw []byte) {
	binary.BigEndian.PutUint32(raw[sizeAt:], uint32(len(raw)-epochAt))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[attributeAt:], castagnoli))
}

func partOf(t *testing.T, raw []byte) *part {
	t.Helper()
	known, err := readBatch(raw)
	require.NoError(t, err)
	return &part{records: raw, batch: known}
}

func TestMergedBatchesHoldEveryRecordInOrderWithItsTime(t *testing.T) {
	var parts []*part
	var expected []string
	for i := range 100 { // more than 64 records: offsets of two bytes
		values := []string{fmt.Sprintf("%d, first", i), fmt.Sprintf("%d, second", i)}
		parts = append(parts, partOf(t, encode(t, 1_700_000_000_000-int64(i)*1000, values...)))
		expected = append(expected, values...)
	}
	raw := merge(nil, parts)
	known, err := readBatch(raw)
	require.NoError(t, err)
	require.Equal(t, len(expected), known.count)

	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(raw))
	require.Equal(t, int32(len(expected)-1), b.LastOffsetDelta)
	require.Equal(t, int64(1_700_000_000_001), b.MaxTimestamp)
	require.EqualValues(t, -1, b.ProducerID)
	rest := b.Records
	for i, value := range expected {
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(rest))
		h, ok := readRecord(rest)
		require.True(t, ok)
		rest = rest[h.size:]
		require.Equal(t, value, string(r.Value))
		require.Equal(t, "k", string(r.Key))
		require.EqualValues(t, i, r.OffsetDelta)
		require.Equal(t, int64(1_700_000_000_000)-int64(i/2)*1000+int64(i%2), b.FirstTimestamp+r.TimestampDelta64)
	}
	require.Empty(t, rest)
}

func TestABatchThatCannotBeMergedIsRefused(t *testing.T) {
	whole := encode(t, 1, "value")
	for name, c := range map[string]struct {
		change  func([]byte) []byte
		refusal error
	}{
		"a flipped bit":        {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, kerr.CorruptMessage},
		"cut short":            {func(b []byte) []byte { return b[:len(b)-1] }, kerr.CorruptMessage},
		"two batches":          {func(b []byte) []byte { return append(b, b...) }, kerr.CorruptMessage},
		"nothing":              {func([]byte) []byte { return nil }, kerr.CorruptMessage},
		"compressed":           {func(b []byte) []byte { b[attributeAt+1] = 1; seal(b); return b }, kerr.UnsupportedCompressionType},
		"of a numbered source": {func(b []byte) []byte { b[producerAt] = 0; seal(b); return b }, kerr.UnsupportedForMessageFormat},
		"a wrong count":        {func(b []byte) []byte { b[countAt+3] = 2; seal(b); return b }, kerr.CorruptMessage},
		"a record's length":    {func(b []byte) []byte { b[recordsAt] = 0x7e; seal(b); return b }, kerr.CorruptMessage},
	} {
		_, err := readBatch(c.change(append([]byte(nil), whole...)))
		require.ErrorIs(t, err, c.refusal, name)
	}
}
