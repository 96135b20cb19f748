package record

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// encodedRecord frames a record's body with its length.
func encodedRecord(body ...byte) []byte {
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// Bytes of a record body that is well formed: attributes, timestamp delta,
// offset delta, null key, null value, no headers.
const null = 1 // -1, zigzag

func TestARecordThatIsNotWellFormedIsRefused(t *testing.T) {
	longZero := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}
	cases := []struct {
		name    string
		section []byte
	}{
		{"nothing", nil},
		{"length 0", encodedRecord()},
		{"length -1", []byte{null}},
		{"length without an end", []byte{0x80}},
		{"length beyond the section", []byte{20, 0, 0, 0, null, null, 0}},
		{"length of more than 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, null, null, 0}},
		{"attributes only", encodedRecord(0)},
		{"no offset delta", encodedRecord(0, 0)},
		{"offset delta 1", encodedRecord(0, 0, 2, null, null, 0)},
		{"offset delta -1", encodedRecord(0, 0, null, null, null, 0)},
		{"offset delta in six bytes", encodedRecord(append(append([]byte{0, 0}, longZero...), null, null, 0)...)},
		{"offset delta that is 0 in 32 bits only", encodedRecord(0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, null, null, 0)},
		{"timestamp delta of eleven bytes", encodedRecord(append(append([]byte{0}, bytes.Repeat([]byte{0x80}, 10)...), 0, 0, null, null, 0)...)},
		{"no key", encodedRecord(0, 0, 0)},
		{"key length -2", encodedRecord(0, 0, 0, 3, null, 0)},
		{"key beyond the record", encodedRecord(0, 0, 0, 8, null, 0)},
		{"no value", encodedRecord(0, 0, 0, null)},
		{"value beyond the record", encodedRecord(0, 0, 0, null, 126, 0)},
		{"no header count", encodedRecord(0, 0, 0, null, null)},
		{"header count -1", encodedRecord(0, 0, 0, null, null, null)},
		{"a header announced, none there", encodedRecord(0, 0, 0, null, null, 2)},
		{"a billion headers announced", encodedRecord(0, 0, 0, null, null, 0xfe, 0xff, 0xff, 0xff, 0x07)},
		{"header with a null key", encodedRecord(0, 0, 0, null, null, 2, null, null)},
		{"header without a value", encodedRecord(0, 0, 0, null, null, 2, 0)},
		{"bytes behind the headers", encodedRecord(0, 0, 0, null, null, 0, 0)},
		{"bytes behind the last record", append(encodedRecord(0, 0, 0, null, null, 0), 0)},
	}
	one := []Record{{}}
	require.NoError(t, kafkaBatch(one, encodedRecord(0, 0, 0, null, null, 0), nil).Check(), "the base of the cases is right")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := kafkaBatch(one, c.section, nil)
			requireReason(t, b.Check(), Invalid)
			require.NoError(t, b.Verify())
			if c.name == "bytes behind the last record" {
				return // a reader has got all records by then
			}
			n := 0
			for _, err := range b.Records {
				requireReason(t, err, Corrupt)
				n++
			}
			require.Equal(t, 1, n, "one error ends the iteration")
		})
	}
}

func TestARecordOverTheLimitIsTooLargeAndTheLimitIsNamed(t *testing.T) {
	atLimit := []Record{{Key: make([]byte, 100), Value: make([]byte, MaxRecordBytes-110), Headers: []Header{{Key: "12345", Value: []byte("67890")}}}}
	require.NoError(t, kafkaBatch(atLimit, kafkaRecords(atLimit), nil).Check())

	over := atLimit
	over[0].Headers[0].Key += "."
	err := kafkaBatch(over, kafkaRecords(over), nil).Check()
	requireReason(t, err, TooLarge)
	require.Equal(t, int64(MaxRecordBytes), err.(*Refusal).Limit)
}

func TestRecordsOfAnUncompressedBatchAliasIt(t *testing.T) {
	b := build(t, None, Record{Key: []byte("key"), Value: []byte("value")})
	for r, err := range b.Records {
		require.NoError(t, err)
		b[bytes.Index(b, []byte("value"))] = 'V'
		require.Equal(t, "Value", string(r.Value))
		grown := append(r.Key, "overwritten?"...)
		require.Equal(t, "keyoverwritten?", string(grown))
		require.Equal(t, "Value", string(r.Value), "appending to a key leaves the key beside it alone")
	}
}

func TestRecordsOfACompressedBatchOutliveTheIteration(t *testing.T) {
	first := build(t, LZ4, Record{Value: []byte("first")})
	second := build(t, LZ4, Record{Value: []byte("other")})
	got := collect(t, first)
	clear(first)
	require.NoError(t, second.Check())
	collect(t, second)
	require.Equal(t, "first", string(got[0].Value))
}

func TestAReaderMayStopInTheMiddle(t *testing.T) {
	b := build(t, Snappy, sampleRecords()...)
	n := 0
	for range b.Records {
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

func TestRecordsOfBytesThatAreNoBatchAreAnError(t *testing.T) {
	for _, err := range Batch([]byte("too short")).Records {
		requireReason(t, err, Corrupt)
	}
}

func TestReadingAndCheckingUncompressedRecordsAllocatesNothing(t *testing.T) {
	records := make([]Record, 128)
	for i := range records {
		records[i] = Record{Key: []byte("key"), Value: make([]byte, 2048)}
	}
	b := build(t, None, records...)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if b.Check() != nil || b.Verify() != nil {
			panic("refused")
		}
	}))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, err := range b.Records {
			if err != nil {
				panic(err)
			}
		}
	}))
	compressed := build(t, Zstd, records...)
	perBatch := testing.AllocsPerRun(10, func() {
		for _, err := range compressed.Records {
			if err != nil {
				panic(err)
			}
		}
	})
	require.Less(t, perBatch, float64(16), "inflating costs allocations by the batch, not by the record")
}
