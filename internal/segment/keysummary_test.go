package segment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/segment/store"
	"strandline.dev/test/disk/faultdisk"
)

// keyed is an entry with a batch of records that have these keys.
func keyed(t *testing.T, i uint64, first record.Offset, codec record.Codec, keys ...string) segment.Entry {
	t.Helper()
	var b record.Builder
	for _, k := range keys {
		require.NoError(t, b.Add(record.Record{Key: []byte(k), Value: make([]byte, 1000)}))
	}
	require.NoError(t, b.Add(record.Record{Value: []byte("without a key")}))
	batch, err := b.Finish(codec)
	require.NoError(t, err)
	batch.SetBaseOffset(first)
	count := uint32(len(keys) + 1)
	payload := record.AppendEntryHeader(nil, record.Entry{Kind: record.EntryBatches, Batches: 1, First: first, Count: count})
	payload = append(record.AppendMeta(payload, record.BatchMeta{Size: uint32(len(batch)), Count: count}), batch...)
	return segment.Entry{Index: i, Term: 1, First: first, Count: count, Time: int64(1000 + i), CRC: record.Checksum(payload), Payload: payload}
}

func ofKey(key string) *segment.KeyQuery     { return segment.NewKeyQuery([][]byte{[]byte(key)}, nil) }
func ofPrefix(text string) *segment.KeyQuery { return segment.NewKeyQuery(nil, [][]byte{[]byte(text)}) }

func summaryOf(t *testing.T, codec record.Codec, keys []string) *segment.KeySummary {
	b := segment.NewKeySummaryBuilder()
	for i, some := range slices.Collect(slices.Chunk(keys, 500)) {
		b.AddEntry(keyed(t, uint64(i+2), 0, codec, some...).Payload)
	}
	return b.Finish()
}

func TestASummaryNeverDeniesAKeyThatIsThere(t *testing.T) {
	for codec := range record.Zstd + 1 {
		random := rand.New(rand.NewPCG(1, uint64(codec)))
		var keys []string
		for i := range 1000 {
			keys = append(keys, fmt.Sprintf("%s%06d", strings.Repeat("k", 1+random.IntN(100)), i))
		}
		s := summaryOf(t, codec, keys)
		require.False(t, s.Any)
		there, wrong := 0, 0
		for i, k := range keys {
			require.True(t, s.MayHave(ofKey(k)), k)
			require.True(t, s.MayHave(ofPrefix(k[:random.IntN(len(k)+1)])), k)
			require.True(t, s.MayHave(segment.NewKeyQuery([][]byte{[]byte("nobody"), []byte(k)}, [][]byte{[]byte("zzz"), []byte(k[:1])})))
			there++
			if s.MayHave(ofKey(fmt.Sprintf("k%06d", 500_000+i))) {
				wrong++
			}
		}
		require.Less(t, wrong, there/50)
		require.False(t, s.MayHave(ofKey("a")), "below the least")
		require.False(t, s.MayHave(ofKey("l")), "above the greatest")
		require.False(t, s.MayHave(ofPrefix("l")))
		require.False(t, s.MayHave(ofPrefix("a")))
		require.False(t, s.MayHave(segment.NewKeyQuery([][]byte{[]byte(keys[0])}, [][]byte{[]byte("l")})), "both have to be")
	}
}

func TestASummaryIsAsSmallAsItsKeysAllow(t *testing.T) {
	b := segment.NewKeySummaryBuilder()
	none := b.Finish()
	require.Empty(t, none.Filter)
	require.False(t, none.MayHave(ofKey("")))
	require.False(t, none.MayHave(ofPrefix("")))
	keys := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return all
	}
	require.Len(t, summaryOf(t, record.None, keys(10)).Filter, 64)
	require.Len(t, summaryOf(t, record.None, keys(1000)).Filter, 2<<10)
	require.False(t, summaryOf(t, record.None, keys(20_000)).Any)
}

func TestASegmentMayHaveAnyKeyWhereItsKeysCannotBeRead(t *testing.T) {
	for name, payload := range map[string][]byte{
		"no entry":                 []byte("no entry"),
		"a batch that is cut":      keyed(t, 2, 0, record.None, "a").Payload[:150],
		"one that inflates to 5 M": keyed(t, 2, 0, record.Zstd, slices.Repeat([]string{"a"}, 5000)...).Payload,
	} {
		b := segment.NewKeySummaryBuilder()
		b.AddEntry(payload)
		s := b.Finish()
		require.True(t, s.Any, name)
		require.True(t, s.MayHave(ofKey("x")))
	}
}

func TestAFileOfASummaryThatIsDamagedIsNone(t *testing.T) {
	s := format.KeySummary{Salt: 7, Ordinal: 3, End: 99, KeySummary: summaryOf(t, record.None, []string{"a", "b", strings.Repeat("c", 70)})}
	b := s.Encode()
	got, err := format.ParseKeySummary(b)
	require.NoError(t, err)
	require.Equal(t, s, got)
	for at := range b {
		bad := slices.Clone(b)
		bad[at] ^= 1
		_, err := format.ParseKeySummary(bad)
		require.Error(t, err)
		_, err = format.ParseKeySummary(b[:at])
		require.Error(t, err)
	}
}

// keyLog is a log of six segments of 11 offsets each. Segment n, from 0, has the keys 0/n to 9/n.
func keyLog(t *testing.T, disk *faultdisk.Disk) *store.Store {
	t.Helper()
	s := create(t, disk)
	for n := range uint64(6) {
		var keys []string
		for j := range 10 {
			keys = append(keys, fmt.Sprint(j, "/", n))
		}
		saveStarts(t, s, write(t, s, synced(keyed(t, n+2, record.Offset(11*n), record.None, keys...))))
	}
	require.Len(t, segmentsOn(disk), 6)
	return s
}

// summarize makes all summaries that are lacking, and returns how many.
func summarize(t *testing.T, log segment.Log) (made int) {
	t.Helper()
	for {
		more, err := log.Summarize(func() bool { return true })
		require.NoError(t, err)
		if !more {
			return made
		}
		made++
	}
}

// requireSkips checks what is known of the six segments for a key of the third.
func requireSkips(t *testing.T, s segment.Log) {
	t.Helper()
	for n := range record.Offset(5) {
		for _, at := range []record.Offset{11 * n, 11*n + 5, 11*n + 10} {
			require.Equal(t, segment.KeyAnswer{End: 11 * (n + 1), Time: 1002 + int64(n), Lacks: n != 2}, s.LookUpKeys(at, ofKey("5/2")), at)
		}
	}
	require.Zero(t, s.LookUpKeys(55, ofKey("nobody")), "the newest is not complete")
	require.Zero(t, s.LookUpKeys(1000, ofKey("nobody")))
}

func TestSegmentsWithoutAKeyAreSkipped(t *testing.T) {
	disk := faultdisk.New(1)
	s := keyLog(t, disk)
	require.Equal(t, segment.KeyAnswer{End: 11, Time: 1002, Unknown: true}, s.LookUpKeys(3, ofKey("5/2")), "nothing is known yet")
	require.Equal(t, 5, summarize(t, s))
	requireSkips(t, s)
	require.NoError(t, s.Close())
	disk.Restart()
	s = open(t, disk)
	requireSkips(t, s)
	require.Zero(t, summarize(t, s))

	saveStarts(t, s, write(t, s, synced(keyed(t, 8, 66, record.None, slices.Repeat([]string{"x"}, 10)...))))
	require.Equal(t, 1, summarize(t, s), "another one is complete")
	require.True(t, s.LookUpKeys(55, ofKey("x")).Lacks)
	require.NoError(t, s.Close())
}

func TestASummaryThatDoesNotMatchItsSegmentIsMadeAnew(t *testing.T) {
	for name, damage := range map[string]func(disk *faultdisk.Disk, file string){
		"it is lost":               func(disk *faultdisk.Disk, file string) { disk.Lose(file) },
		"a bit is flipped":         func(disk *faultdisk.Disk, file string) { disk.FlipBit(file, 180) },
		"it is empty":              func(disk *faultdisk.Disk, file string) { disk.Replace(file, nil) },
		"it is of another segment": func(disk *faultdisk.Disk, file string) { disk.Replace(file, disk.Content(filesOn(disk, ".keys")[3])) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restart), func(t *testing.T) {
				disk := faultdisk.New(1)
				s := keyLog(t, disk)
				require.Equal(t, 5, summarize(t, s))
				if restart {
					require.NoError(t, s.Close())
				}
				damage(disk, filesOn(disk, ".keys")[2])
				if restart {
					disk.Restart()
					s = open(t, disk)
				}
				require.True(t, s.LookUpKeys(22, ofKey("nobody")).Unknown)
				require.Equal(t, 1, summarize(t, s))
				requireSkips(t, s)
				require.NoError(t, s.Close())
			})
		}
	}
}

func TestASummaryGoesWithItsSegment(t *testing.T) {
	disk := faultdisk.New(1)
	s := keyLog(t, disk)
	require.Equal(t, 5, summarize(t, s))
	orphan := disk.Content(filesOn(disk, ".keys")[0])
	require.NoError(t, trim(s, 5))
	require.Len(t, filesOn(disk, ".keys"), 2)
	require.NoError(t, s.Close())
	name := dir + "/" + store.SegmentName(1, 2) + ".keys"
	file, err := disk.Create(name)
	require.NoError(t, err)
	_, err = file.WriteAt(orphan, 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	disk.Restart()
	s = open(t, disk)
	require.Len(t, filesOn(disk, ".keys"), 2, "one without a segment is removed")
	require.NoError(t, s.Reset(100, 3, 500, segment.HardState{Term: 3, Commit: 100}, []byte("state")))
	require.Empty(t, filesOn(disk, ".keys"))
	require.NoError(t, s.Close())
}

func TestASummaryThatThePowerTookIsMadeAnew(t *testing.T) {
	disk := faultdisk.New(1)
	require.Equal(t, 5, summarize(t, keyLog(t, disk)))
	disk.PowerCut(faultdisk.Nothing)
	s := open(t, disk)
	for n := range record.Offset(5) {
		s.LookUpKeys(11*n, ofKey("5/2"))
	}
	require.Equal(t, 5, summarize(t, s))
	requireSkips(t, s)
	require.NoError(t, s.Close())
}

func TestALogWhoseSummaryCannotBeWrittenContinues(t *testing.T) {
	disk := faultdisk.New(1)
	s := keyLog(t, disk)
	disk.FailNth(faultdisk.Write, 1, syscall.EIO)
	_, err := s.Summarize(func() bool { return true })
	require.ErrorIs(t, err, syscall.EIO)
	require.True(t, s.LookUpKeys(0, ofKey("nobody")).Unknown)
	require.Equal(t, 5, summarize(t, s))
	requireSkips(t, s)
	require.NoError(t, s.Close())

	disk = faultdisk.New(1)
	s = keyLog(t, disk)
	disk.Capacity(disk.Used())
	require.Zero(t, summarize(t, s), "there is no room for it")
	disk.Capacity(0)
	require.Equal(t, 5, summarize(t, s))
	require.NoError(t, s.Close())
}

func TestASummaryThatIsGivenUpIsMadeLater(t *testing.T) {
	s := keyLog(t, faultdisk.New(1))
	more, err := s.Summarize(func() bool { return false })
	require.NoError(t, err)
	require.False(t, more)
	require.True(t, s.LookUpKeys(0, ofKey("nobody")).Unknown)
	require.Equal(t, 5, summarize(t, s))
	require.NoError(t, s.Close())
}

// Entries that took the place of others are in a segment of their own.
func TestASummaryHoldsAfterASuffixWasTruncated(t *testing.T) {
	s := keyLog(t, faultdisk.New(1))
	require.Equal(t, 5, summarize(t, s))
	again := keyed(t, 4, 22, record.None, "another")
	again.Term = 2
	saveStarts(t, s, write(t, s, synced(again)))
	require.True(t, s.LookUpKeys(0, ofKey("another")).Lacks)
	require.Zero(t, s.LookUpKeys(22, ofKey("5/2")), "it is in the newest")
	require.NoError(t, s.Close())
}
