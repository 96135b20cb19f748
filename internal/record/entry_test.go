package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var sampleMetas = []BatchMeta{
	{Size: 7, Epoch: 2, Session: 0x1122334455667788, First: 1 << 40, LowWater: 1 << 39, WriterTerm: 3, Count: 5, Flags: MetaImplicit},
	{Size: 4, Count: 1},
}

// sampleEntry encodes an entry of two batches. Its body need not be batches:
// ParseEntry does not look into it.
func sampleEntry() []byte {
	data := AppendEntryHeader(nil, Entry{
		Kind: EntryBatches, Batches: 2, Time: 1_700_000_000_000, Chain: 0xfeedface, First: 1000, Count: 6,
	})
	for _, m := range sampleMetas {
		data = AppendMeta(data, m)
	}
	return append(data, "batch 1two."...)
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	data := sampleEntry()
	e, err := ParseEntry(data)
	require.NoError(t, err)
	require.Equal(t, EntryBatches, e.Kind)
	require.Equal(t, int64(1_700_000_000_000), e.Time)
	require.Equal(t, uint64(0xfeedface), e.Chain)
	require.Equal(t, Offset(1000), e.First)
	require.Equal(t, Offset(1006), e.End())
	require.Equal(t, uint32(6), e.Count)
	require.Equal(t, "batch 1two.", string(e.Body))
	require.Equal(t, 2, e.Batches)
	for i, m := range sampleMetas {
		require.Equal(t, m, e.Meta(i))
	}
	require.Same(t, &data[len(data)-1], &e.Body[len(e.Body)-1], "nothing is copied")
}

// digestedEntry is an entry of one batch with the contents of two before.
func digestedEntry(t testing.TB) []byte {
	batch := golden(t, "none")
	hashed := AppendHashed(nil, &HashedBatch{First: 7, Count: 3, Size: 90, Content: Content{1, 2}})
	hashed = AppendHashed(hashed, &HashedBatch{First: 10, Count: 1, Size: 70, Content: batch.Content()})
	data := AppendEntryHeader(nil, Entry{Kind: EntryBatches, Batches: 1, Time: 5, First: 1000, Count: uint32(batch.Count()), Begins: true, Hashed: hashed})
	data = AppendMeta(data, BatchMeta{Size: uint32(len(batch)), Count: uint32(batch.Count())})
	return append(append(data, batch...), hashed...)
}

func TestAnEntryHasTheContentsOfEarlierBatches(t *testing.T) {
	data := digestedEntry(t)
	require.Equal(t, byte(DigestedVersion), data[0])
	e, err := ParseEntry(data)
	require.NoError(t, err)
	require.True(t, e.Begins)
	require.Equal(t, e.Count, e.Meta(0).Count)
	require.Equal(t, golden(t, "none"), Batch(e.Body))
	var contents []HashedBatch
	for h := range e.HashedBatches {
		contents = append(contents, h)
	}
	require.Equal(t, []HashedBatch{
		{First: 7, Count: 3, Size: 90, Content: Content{1, 2}}, {First: 10, Count: 1, Size: 70, Content: golden(t, "none").Content()},
	}, contents)
	require.Equal(t, Offset(10), contents[0].End())

	batch := golden(t, "none")
	batch.SetBaseOffset(77)
	batch.SetLeaderEpoch(3)
	require.Equal(t, golden(t, "none").Content(), batch.Content(), "the place in a log is no part of the content")

	for position, value := range map[int]byte{1: byte(EntryCommand), 2: 2, 3: 1, 36: 3, 39: 255} {
		data := digestedEntry(t)
		data[position] = value
		_, err = ParseEntry(data)
		require.ErrorIs(t, err, ErrEntry, position)
	}
	head, err := ParseEntryHead(data[:entryHeaderSize+batchMetaSize], len(data))
	require.NoError(t, err)
	require.Equal(t, e.Metas, head.Metas)
}

func TestTheBytesOfAnEntryAreForEver(t *testing.T) {
	require.Equal(t, ""+
		"01010000"+"02000000"+"0068e5cf8b010000"+"cefaedfe00000000"+"e803000000000000"+"06000000"+"00000000"+
		"07000000"+"02000000"+"8877665544332211"+"0000000000010000"+"0000000080000000"+"0300000000000000"+"05000000"+"01000000"+
		"04000000"+"00000000"+"0000000000000000"+"0000000000000000"+"0000000000000000"+"0000000000000000"+"01000000"+"00000000"+
		hex.EncodeToString([]byte("batch 1two.")),
		hex.EncodeToString(sampleEntry()))

	batch := golden(t, "none")
	first := "0700000000000000" + "03000000" + "5a000000" + "0102" + strings.Repeat("00", 30)
	require.Equal(t, ""+
		"02010100"+"01000000"+"0500000000000000"+"0000000000000000"+"e803000000000000"+"05000000"+"02000000"+
		"bc010000"+strings.Repeat("00", 36)+"05000000"+"00000000"+
		hex.EncodeToString(batch)+
		first+"0a00000000000000"+"01000000"+"46000000"+fmt.Sprintf("%x", sha256.Sum256(batch[21:])),
		hex.EncodeToString(digestedEntry(t)))

	// Contents by themselves.
	hashed, err := hex.DecodeString(first)
	require.NoError(t, err)
	data := AppendEntryHeader(nil, Entry{Kind: EntryBatches, Time: 5, Chain: 0xfeedface, First: 1000, Hashed: hashed})
	require.Equal(t, "02010000"+"00000000"+"0500000000000000"+"cefaedfe00000000"+"e803000000000000"+"00000000"+"01000000", hex.EncodeToString(data))
	e, err := ParseEntry(append(data, hashed...))
	require.NoError(t, err)
	require.Equal(t, Offset(1000), e.End())
	require.Equal(t, hashed, e.Hashed)
}

func TestAnEntryThatDoesNotAddUpIsRefused(t *testing.T) {
	set := func(position int, value byte) func([]byte) []byte {
		return func(b []byte) []byte { b[position] = value; return b }
	}
	cases := []struct {
		name   string
		change func([]byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"header cut short", func(b []byte) []byte { return b[:entryHeaderSize-1] }},
		{"metadata cut short", func(b []byte) []byte { return b[:entryHeaderSize+batchMetaSize] }},
		{"body cut short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"body too long", func(b []byte) []byte { return append(b, 0) }},
		{"version 0", set(0, 0)},
		{"version 2", set(0, 2)},
		{"kind 0", set(1, 0)},
		{"kind 3", set(1, 3)},
		{"a batch more", set(4, 3)},
		{"a batch fewer", set(4, 1)},
		{"four billion batches", func(b []byte) []byte { copy(b[4:], "\xff\xff\xff\xff"); return b }},
		{"a record more", set(32, 7)},
		{"a size too large", set(entryHeaderSize, 8)},
		{"sizes that wrap around", func(b []byte) []byte {
			copy(b[entryHeaderSize:], "\xff\xff\xff\xff")
			copy(b[entryHeaderSize+batchMetaSize:], "\x0c\x00\x00\x00") // 2^32-1 + 12 = 11, in 32 bits
			return b
		}},
		{"a command with records", set(1, byte(EntryCommand))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseEntry(c.change(sampleEntry()))
			require.ErrorIs(t, err, ErrEntry)
		})
	}
}

func TestAnEntryOfTheLargestRequestFitsTheLimit(t *testing.T) {
	require.LessOrEqual(t, entryHeaderSize+batchMetaSize+MaxBatchBytes, MaxEntryBytes)
	require.Less(t, EntryTargetBytes, MaxEntryBytes)
	require.Less(t, MaxRecordBytes, MaxBatchBytes)
	require.Less(t, MaxBatchBytes, MaxInflatedBytes)
}

func TestAGapASwapAndARepeatOfEntriesShowInTheChain(t *testing.T) {
	chain := func(payloads ...string) uint64 {
		var value uint64
		for _, p := range payloads {
			value = NextChain(value, Checksum([]byte(p)))
		}
		return value
	}
	seen := map[uint64]string{}
	for _, order := range [][]string{
		{}, {"a"}, {"a", "b"}, {"b", "a"}, {"a", "a"}, {"a", "b", "b"}, {"b"}, {"a", "c"}, {"a", "b", "c"}, {"a", "c", "b"},
	} {
		value := chain(order...)
		require.NotContains(t, seen, value, "%v and %v", order, seen[value])
		seen[value] = fmt.Sprint(order)
	}
	require.Equal(t, uint64(0x8ce4775b6193de0e), chain("a", "b"), "chain values are on disk")
}

func TestTheChecksumIsCRC32C(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), Checksum([]byte("123456789")), "the check value of CRC catalogues")
	require.Equal(t, uint32(0x8a9136aa), Checksum(bytes.Repeat([]byte{0}, 32)), "RFC 3720, B.4")
}
