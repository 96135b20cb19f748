package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// golden reads a batch that another implementation made: hex, with a first
// line that says which.
func golden(t testing.TB, name string) Batch {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name+".hex"))
	require.NoError(t, err)
	var digits strings.Builder
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "#") {
			digits.WriteString(lines.Text())
		}
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

var goldens = []struct {
	name  string
	codec Codec
}{
	{"none", None},
	{"gzip", Gzip},
	{"snappy-raw", Snappy},
	{"snappy-xerial", Snappy},
	{"lz4", LZ4},
	{"lz4-checksums", LZ4},
	{"zstd", Zstd},
	{"zstd-ultra", Zstd},
}

func TestABatchOfAnotherImplementationIsReadRecordByRecord(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			b, rest, err := Split(golden(t, g.name))
			require.NoError(t, err)
			require.Empty(t, rest)
			require.NoError(t, b.Check())
			require.NoError(t, b.Verify())
			require.Equal(t, g.codec, b.Compression())
			require.Equal(t, withOffsets(0, sampleRecords()), collect(t, b))
		})
	}
}

func TestTheBuilderWritesTheSameBytesAsAnotherImplementation(t *testing.T) {
	cases := map[string][]Record{
		"every shape":       sampleRecords(),
		"one empty record":  {{}},
		"time before 1970":  {{Timestamp: -1}, {Timestamp: -5000}, {Timestamp: 7}},
		"times far apart":   {{Timestamp: 0}, {Timestamp: 1 << 50}, {Timestamp: -1 << 50}},
		"two-byte deltas":   make([]Record, 200),
		"three-byte length": {{Value: bytes.Repeat([]byte("x"), 1<<16)}},
	}
	for name, records := range cases {
		t.Run(name, func(t *testing.T) {
			want := kafkaBatch(records, kafkaRecords(records), nil)
			got := build(t, None, records...)
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
			require.NoError(t, got.Check())
			require.Equal(t, withOffsets(0, records), collect(t, got))
		})
	}
	require.Equal(t, golden(t, "none"), build(t, None, sampleRecords()...))
}

func TestAnotherImplementationReadsWhatTheBuilderWrites(t *testing.T) {
	batch := build(t, None, sampleRecords()...)
	var read kmsg.RecordBatch
	require.NoError(t, read.ReadFrom(batch))
	require.EqualValues(t, len(batch)-12, read.Length)
	require.EqualValues(t, 5, read.NumRecords)

	section := read.Records
	for i, want := range sampleRecords() {
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(section))
		section = section[len(r.AppendTo(nil)):]
		require.EqualValues(t, i, r.OffsetDelta)
		require.Equal(t, want.Timestamp, read.FirstTimestamp+r.TimestampDelta64)
		require.Equal(t, want.Key, r.Key)
		require.Equal(t, want.Value, r.Value)
		require.Len(t, r.Headers, len(want.Headers))
		for j, h := range want.Headers {
			require.Equal(t, kmsg.Header{Key: h.Key, Value: h.Value}, r.Headers[j])
		}
	}
	require.Empty(t, section)
}

func TestTheHeaderFieldsAreWhereKafkaPutsThem(t *testing.T) {
	records := sampleRecords()
	b := kafkaBatch(records, kafkaRecords(records), func(k *kmsg.RecordBatch) {
		k.FirstOffset = 1 << 40
		k.PartitionLeaderEpoch = 9
		k.ProducerID = 1 << 33
		k.ProducerEpoch = 12
		k.FirstSequence = 77
	})
	require.NoError(t, b.Check())
	require.Equal(t, Offset(1<<40), b.BaseOffset())
	require.Equal(t, Offset(1<<40+5), b.End())
	require.Equal(t, int32(9), b.LeaderEpoch())
	require.Equal(t, 5, b.Count())
	require.Equal(t, int64(1_700_000_000_000), b.BaseTimestamp())
	require.Equal(t, int64(1_700_000_123_456), b.MaxTimestamp())
	require.Equal(t, int64(1<<33), b.ProducerID())
	require.Equal(t, int16(12), b.ProducerEpoch())
	require.Equal(t, int32(77), b.BaseSequence())
	require.Equal(t, int16(0), b.Attributes())
}

func TestABatchFindsItsPlaceWithoutANewChecksum(t *testing.T) {
	b := build(t, Zstd, sampleRecords()...)
	before := bytes.Clone(b)
	b.SetBaseOffset(1 << 41)
	b.SetLeaderEpoch(123)

	require.NoError(t, b.Verify())
	require.NoError(t, b.Check())
	require.Equal(t, withOffsets(1<<41, sampleRecords()), collect(t, b))
	require.Equal(t, before[16:], []byte(b[16:]), "nothing behind the leader epoch changes")
}

func TestARunIsSplitIntoItsBatches(t *testing.T) {
	var run []byte
	var want []Batch
	for _, g := range goldens {
		want = append(want, golden(t, g.name))
		run = append(run, want[len(want)-1]...)
	}
	for _, w := range want {
		var b Batch
		var err error
		b, run, err = Split(run)
		require.NoError(t, err)
		require.Equal(t, w, b)
	}
	require.Empty(t, run)
}

func TestARunThatIsCutShortIsRefused(t *testing.T) {
	whole := golden(t, "none")
	for n := range len(whole) {
		_, _, err := Split(whole[:n])
		requireReason(t, err, Invalid)
	}
}

func TestALengthFieldIsNotBelieved(t *testing.T) {
	cases := map[int32]Reason{
		-1: Invalid, -1 << 31: Invalid, 0: Invalid, 48: Invalid, // 49 is the rest of the header
		1 << 20:                  Invalid, // more than is there
		MaxBatchBytes - 12:       Invalid,
		MaxBatchBytes - 12 + 1:   TooLarge,
		int32(uint32(1)<<31 - 1): TooLarge,
	}
	for length, want := range cases {
		b := golden(t, "none")
		binary.BigEndian.PutUint32(b[8:], uint32(length))
		_, _, err := Split(b)
		requireReason(t, err, want)
		if length != MaxBatchBytes-12 {
			requireReason(t, b.Check(), Invalid)
		}
		requireReason(t, b.Verify(), Corrupt)
	}
}

// The header of a batch is checked, and a right CRC does not help a wrong one.
func TestABatchWithAWrongHeaderIsRefused(t *testing.T) {
	cases := []struct {
		name     string
		change   func(*kmsg.RecordBatch)
		check    Reason
		verified bool // nothing that Verify looks at
	}{
		{"magic 1", func(k *kmsg.RecordBatch) { k.Magic = 1 }, Invalid, false},
		{"length one short", func(k *kmsg.RecordBatch) { k.Length-- }, Invalid, false},
		{"length one over", func(k *kmsg.RecordBatch) { k.Length++ }, Invalid, false},
		{"no records", func(k *kmsg.RecordBatch) { k.NumRecords, k.LastOffsetDelta = 0, -1 }, Invalid, false},
		{"minus one record", func(k *kmsg.RecordBatch) { k.NumRecords, k.LastOffsetDelta = -1, -2 }, Invalid, false},
		{"last offset delta below", func(k *kmsg.RecordBatch) { k.LastOffsetDelta-- }, Invalid, false},
		{"last offset delta above", func(k *kmsg.RecordBatch) { k.LastOffsetDelta++ }, Invalid, false},
		{"codec 5", func(k *kmsg.RecordBatch) { k.Attributes = 5 }, Invalid, false},
		{"one record more than there are", func(k *kmsg.RecordBatch) { k.NumRecords++; k.LastOffsetDelta++ }, Invalid, true},
		{"one record fewer than there are", func(k *kmsg.RecordBatch) { k.NumRecords--; k.LastOffsetDelta-- }, Invalid, true},
		{"more records than may be", func(k *kmsg.RecordBatch) {
			k.NumRecords, k.LastOffsetDelta = MaxBatchRecords+1, MaxBatchRecords
		}, TooLarge, true},
		{"log append time", func(k *kmsg.RecordBatch) { k.Attributes = 1 << 3 }, Invalid, true},
		{"transactional", func(k *kmsg.RecordBatch) { k.Attributes = 1 << 4 }, Invalid, true},
		{"control", func(k *kmsg.RecordBatch) { k.Attributes = 1 << 5 }, Invalid, true},
		{"an attribute of the future", func(k *kmsg.RecordBatch) { k.Attributes = 1 << 6 }, Invalid, true},
		{"the sign attribute", func(k *kmsg.RecordBatch) { k.Attributes = -1 << 15 }, Invalid, true},
		{"gzip that is none", func(k *kmsg.RecordBatch) { k.Attributes = int16(Gzip) }, Invalid, true},
		{"snappy that is none", func(k *kmsg.RecordBatch) { k.Attributes = int16(Snappy) }, Invalid, true},
		{"lz4 that is none", func(k *kmsg.RecordBatch) { k.Attributes = int16(LZ4) }, Invalid, true},
		{"zstd that is none", func(k *kmsg.RecordBatch) { k.Attributes = int16(Zstd) }, Invalid, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			records := sampleRecords()
			b := kafkaBatch(records, kafkaRecords(records), c.change)
			requireReason(t, b.Check(), c.check)
			if c.verified {
				require.NoError(t, b.Verify())
			} else {
				requireReason(t, b.Verify(), Corrupt)
			}
		})
	}
}

func TestEveryFlippedBitBehindTheLeaderEpochIsNoticed(t *testing.T) {
	for _, name := range []string{"none", "zstd"} {
		b := golden(t, name)
		for bit := 8 * 8; bit < 8*len(b); bit++ {
			if bit/8 >= 12 && bit/8 < 16 {
				continue // the leader epoch is ours to change
			}
			b[bit/8] ^= 1 << (bit % 8)
			requireReason(t, b.Verify(), Corrupt)
			requireReason(t, b.Check(), Invalid)
			b[bit/8] ^= 1 << (bit % 8)
		}
		require.NoError(t, b.Check())
	}
}

func TestABatchOverTheSizeLimitIsRefusedBeforeItIsRead(t *testing.T) {
	err := Batch(make([]byte, MaxBatchBytes+1)).Check()
	requireReason(t, err, TooLarge)
	require.Equal(t, int64(MaxBatchBytes), err.(*Refusal).Limit)
}

func TestAnAppendTimeIsThatOfAllRecords(t *testing.T) {
	for _, codec := range []Codec{None, Zstd} {
		var b Builder
		b.Reset(nil)
		require.NoError(t, b.Add(Record{Timestamp: 1, Value: []byte("a")}))
		require.NoError(t, b.Add(Record{Timestamp: 2, Value: []byte("b")}))
		batch, err := b.Finish(codec)
		require.NoError(t, err)
		batch.SetAppendTime(1_700_000_000_000)
		require.NoError(t, batch.Verify())
		require.Error(t, batch.Check(), "no producer may do that")
		for r, err := range batch.Records {
			require.NoError(t, err)
			require.EqualValues(t, 1_700_000_000_000, r.Timestamp)
		}
	}
}
