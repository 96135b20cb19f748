package segment_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/memory"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// TestLogBesideReaders is what every Log does, on the real disk, on the one of the tests,
// and in memory.
func TestLogBesideReaders(t *testing.T) {
	logs := map[string]func(t *testing.T) segment.Log{
		"disk": func(t *testing.T) segment.Log {
			s, err := store.Create(vfs.OS(), t.TempDir()+"/log", store.Options{SegmentBytes: 16 << 10}, bootstrap())
			require.NoError(t, err)
			return s
		},
		"faultdisk": func(t *testing.T) segment.Log { return create(t, faultdisk.New(1)) },
		"memory":    func(t *testing.T) segment.Log { return memory.New(bootstrap()) },
	}
	claims := []struct {
		name string
		test func(*testing.T, segment.Log)
	}{
		{"an empty log knows where it starts", emptyLog},
		{"what is written is read", writtenIsRead},
		{"one write takes several", severalWrites},
		{"entries stop at the size asked for", entriesStop},
		{"a frame truncates the suffix from its index on", truncatesSuffix},
		{"a truncation reaches into earlier segments", truncatesEarlierSegments},
		{"an entry that does not follow is refused", gapRefused},
		{"a cursor starts at any offset", cursorStarts},
		{"a cursor stops at its limit and goes on from it", cursorLimit},
		{"a time is looked up", timeLookup},
		{"a size is looked up", sizeLookup},
		{"recycling takes what a snapshot covers", recycles},
		{"a cursor keeps what it reads from being recycled", cursorKeeps},
		{"a reset leaves a snapshot only", resets},
		{"the newest snapshot is loaded", snapshots},
		{"reading goes on beside writing", readBesideWrite},
		{"a closed log answers nothing", closed},
	}
	for kind, make := range logs {
		for _, c := range claims {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				log := make(t)
				c.test(t, log)
				require.NoError(t, log.Close())
			})
		}
	}
}

func emptyLog(t *testing.T, log segment.Log) {
	require.Equal(t, uint64(2), log.FirstIndex())
	require.Equal(t, uint64(1), log.LastIndex())
	require.Equal(t, record.Offset(0), log.StartOffset())
	require.Equal(t, bootstrap().HardState, log.HardState())
	term, err := log.Term(1)
	require.NoError(t, err)
	require.Equal(t, uint64(1), term)
	_, err = log.Term(0)
	require.ErrorIs(t, err, segment.ErrTrimmed)
	_, err = log.Term(2)
	require.ErrorIs(t, err, segment.ErrUnavailable)
	_, err = log.Entries(2, 3, 100)
	require.ErrorIs(t, err, segment.ErrUnavailable)
	offset, err := log.OffsetAtTime(0)
	require.NoError(t, err)
	require.Equal(t, record.Offset(0), offset)
	offset, err = log.OffsetAtSize(0, 0)
	require.NoError(t, err)
	require.Equal(t, record.Offset(0), offset)
	requireEntries(t, log, nil)
}

func writtenIsRead(t *testing.T, log segment.Log) {
	want := entries(2, 300, 1, 700)
	want = append(want, entry(300, 1, 50_000), entry(301, 1, 0), entry(302, 2, 10))
	for _, f := range want {
		write(t, log, synced(f))
	}
	requireEntries(t, log, want)
}

func severalWrites(t *testing.T, log segment.Log) {
	want := entries(2, 90, 1, 500)
	write(t, log, []segment.Write{
		{Entries: want[:40], HardState: &segment.HardState{Term: 1, Commit: 20}},
		{HardState: &segment.HardState{Term: 2, Vote: 3, Commit: 30}},
		{Entries: want[40:], MustSync: true},
	})
	requireEntries(t, log, want)
	require.Equal(t, segment.HardState{Term: 2, Vote: 3, Commit: 30}, log.HardState())
}

func entriesStop(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 50, 1, 100)...))
	for size, count := range map[int]int{0: 1, 100: 1, 199: 1, 200: 2, 1000: 10, math.MaxInt: 40} {
		frames, err := log.Entries(10, 50, size)
		require.NoError(t, err)
		require.Len(t, frames, count, "size %d", size)
		require.Equal(t, uint64(10), frames[0].Index)
	}
	frames, err := log.Entries(10, 12, math.MaxInt)
	require.NoError(t, err)
	require.Len(t, frames, 2)
}

func truncatesSuffix(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 12, 1, 100)...))
	write(t, log, synced(entries(8, 10, 2, 120)...))
	want := append(entries(2, 8, 1, 100), entries(8, 10, 2, 120)...)
	requireEntries(t, log, want)
	// Within one call, and from the first entry on.
	write(t, log, []segment.Write{
		{Entries: entries(10, 12, 2, 10)}, {Entries: entries(9, 14, 3, 10)}, {Entries: entries(11, 13, 4, 10), MustSync: true},
	})
	want = append(want[:7], append(entries(9, 11, 3, 10), entries(11, 13, 4, 10)...)...)
	requireEntries(t, log, want)
	write(t, log, synced(entries(2, 4, 5, 10)...))
	requireEntries(t, log, entries(2, 4, 5, 10))
}

func truncatesEarlierSegments(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 100, 1, 1000)...))
	write(t, log, synced(entries(40, 60, 2, 900)...))
	want := append(entries(2, 40, 1, 1000), entries(40, 60, 2, 900)...)
	requireEntries(t, log, want)
	write(t, log, synced(entries(20, 100, 3, 800)...))
	want = append(want[:18], entries(20, 100, 3, 800)...)
	requireEntries(t, log, want)
	offset, err := log.OffsetAtSize(800*3, firstOf(100))
	require.NoError(t, err)
	require.Equal(t, firstOf(97), offset)
	offset, err = log.OffsetAtSize(800*80+1000, firstOf(100))
	require.NoError(t, err)
	require.Equal(t, firstOf(19), offset)
}

func gapRefused(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 5, 1, 10)...))
	for name, ws := range map[string][]segment.Write{
		"gap":        synced(entry(6, 1, 10)),
		"gap within": synced(entry(5, 1, 10), entry(7, 1, 10)),
		"too low":    synced(entry(1, 1, 10)),
		"too large":  synced(segment.Entry{Index: 5, Term: 1, Payload: make([]byte, record.MaxEntryBytes+1)}),
		"later gap":  {{Entries: entries(5, 8, 1, 10)}, {Entries: entries(9, 10, 1, 10)}},
	} {
		_, err := log.Write(ws)
		require.Error(t, err, name)
	}
	requireEntries(t, log, entries(2, 5, 1, 10))
	write(t, log, synced(entry(5, 1, 10)))
}

func cursorStarts(t *testing.T, log segment.Log) {
	const last = 150
	write(t, log, synced(entries(2, last+1, 1, 400)...))
	for i := uint64(2); i <= last+1; i++ {
		cursor, err := log.NewCursor(firstOf(i))
		require.NoError(t, err)
		frames, err := cursor.Next(firstOf(last+1), 10)
		require.NoError(t, err)
		if firstOf(i) == firstOf(last+1) {
			require.Empty(t, frames)
		} else {
			require.Equal(t, firstOf(i), frames[0].First)
		}
		cursor.Close()
	}
}

func cursorLimit(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 20, 1, 400)...))
	cursor, err := log.NewCursor(0)
	require.NoError(t, err)
	defer cursor.Close()
	next := uint64(2)
	for limit := record.Offset(0); limit <= firstOf(200); limit++ {
		for {
			frames, err := cursor.Next(limit, 1<<20)
			require.NoError(t, err)
			if len(frames) == 0 {
				break
			}
			for _, f := range frames {
				require.Equal(t, next, f.Index)
				require.Less(t, f.First, limit)
				next++
			}
		}
		if last := log.LastIndex(); limit == firstOf(last) {
			write(t, log, synced(entries(last+1, last+10, 1, 400)...))
		}
	}
	require.GreaterOrEqual(t, next, uint64(200))
}

func timeLookup(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 201, 1, 400)...))
	for i := uint64(2); i <= 200; i++ {
		offset, err := log.OffsetAtTime(int64(1000 + i))
		require.NoError(t, err)
		require.Equal(t, firstOf(i), offset)
	}
	offset, err := log.OffsetAtTime(0)
	require.NoError(t, err)
	require.Equal(t, record.Offset(0), offset)
	offset, err = log.OffsetAtTime(5000)
	require.NoError(t, err)
	require.Equal(t, firstOf(201), offset)
}

func sizeLookup(t *testing.T, log segment.Log) {
	all := entries(2, 201, 1, 400)
	write(t, log, synced(all...))
	for _, from := range []record.Offset{0, 1, firstOf(60), firstOf(60) + 1, firstOf(149), firstOf(200), firstOf(201), firstOf(300)} {
		want := int64(0)
		for _, e := range all {
			if e.First >= from {
				want += 400
			}
		}
		bytes, err := log.BytesFrom(from, 0)
		require.NoError(t, err)
		require.Equal(t, []int64{want, int64(len(all)) * 400}, bytes, "from %d", from)
	}
	for _, end := range []record.Offset{firstOf(201), firstOf(150), 1, 0} {
		for bytes := int64(0); bytes < 90_000; bytes += 199 {
			want, left := end, bytes
			for k := len(all) - 1; k >= 0; k-- {
				if all[k].First >= end {
					continue
				}
				if left -= 400; left < 0 {
					break
				}
				want = all[k].First
			}
			offset, err := log.OffsetAtSize(bytes, end)
			require.NoError(t, err)
			require.Equal(t, want, offset, "%d bytes before %d", bytes, end)
		}
	}
}

func recycles(t *testing.T, log segment.Log) {
	want := entries(2, 201, 1, 400)
	result := write(t, log, synced(want...))
	require.NoError(t, trim(log, 150))
	require.Equal(t, uint64(2), log.FirstIndex(), "no start of a segment has a snapshot")

	saveStarts(t, log, result)
	require.NoError(t, log.SaveSnapshot(120, 1, []byte("state at 120")))
	before := log.Bytes()
	require.NoError(t, trim(log, 150))
	first := log.FirstIndex()
	require.Greater(t, first, uint64(60))
	require.LessOrEqual(t, first, uint64(150))
	index, _, _, err := log.LoadBase()
	require.NoError(t, err, "whoever has nothing can begin where the log does")
	require.Equal(t, first-1, index)
	require.Less(t, log.Bytes(), before)
	require.Equal(t, firstOf(first), log.StartOffset())
	requireEntries(t, log, want[first-2:])

	_, err = log.Entries(first-1, first+1, 100)
	require.ErrorIs(t, err, segment.ErrTrimmed)
	_, err = log.NewCursor(firstOf(first) - 1)
	require.ErrorIs(t, err, segment.ErrTrimmed)
	term, err := log.Term(first - 1)
	require.NoError(t, err)
	require.Equal(t, uint64(1), term)
	_, err = log.Term(first - 2)
	require.ErrorIs(t, err, segment.ErrTrimmed)

	require.NoError(t, trim(log, 80))
	require.Equal(t, first, log.FirstIndex())
	want = append(want, entries(201, 300, 2, 400)...)
	write(t, log, synced(want[199:]...))
	requireEntries(t, log, want[first-2:])
}

func cursorKeeps(t *testing.T, log segment.Log) {
	saveStarts(t, log, write(t, log, synced(entries(2, 201, 1, 400)...)))
	cursor, err := log.NewCursor(0)
	require.NoError(t, err)
	defer cursor.Close()
	frames, err := cursor.Next(1<<40, 100)
	require.NoError(t, err)
	require.NoError(t, log.SaveSnapshot(149, 1, nil))
	require.NoError(t, trim(log, 150))
	for err == nil {
		for _, f := range frames {
			require.True(t, sameFrame(entry(f.Index, 1, 400), f))
		}
		frames, err = cursor.Next(1<<40, 100)
		require.True(t, err != nil || len(frames) > 0)
	}
	require.ErrorIs(t, err, segment.ErrTrimmed)
}

func resets(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 100, 1, 400)...))
	hard := segment.HardState{Term: 7, Vote: 2, Commit: 500}
	require.NoError(t, log.Reset(500, 6, 4000, hard, []byte("state at 500")))
	require.Equal(t, uint64(501), log.FirstIndex())
	require.Equal(t, uint64(500), log.LastIndex())
	require.Equal(t, record.Offset(4000), log.StartOffset())
	require.Equal(t, hard, log.HardState())
	term, err := log.Term(500)
	require.NoError(t, err)
	require.Equal(t, uint64(6), term)
	index, term, data, err := log.LoadSnapshot()
	require.NoError(t, err)
	require.Equal(t, uint64(500), index)
	require.Equal(t, uint64(6), term)
	require.Equal(t, []byte("state at 500"), data)
	f := entry(501, 7, 100)
	f.First = 4000
	write(t, log, synced(f))
	requireEntries(t, log, []segment.Entry{f})
}

func snapshots(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 100, 1, 100)...))
	for i := uint64(10); i < 50; i += 10 {
		require.NoError(t, log.SaveSnapshot(i, 1, fmt.Append(nil, "state at ", i)))
		index, term, data, err := log.LoadSnapshot()
		require.NoError(t, err)
		require.Equal(t, i, index)
		require.Equal(t, uint64(1), term)
		require.Equal(t, fmt.Append(nil, "state at ", i), data)
	}
}

func readBesideWrite(t *testing.T, log segment.Log) {
	const last = 2000
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			cursor, err := log.NewCursor(0)
			if err != nil {
				t.Error(err)
				return
			}
			defer cursor.Close()
			for next := uint64(2); next <= last; {
				frames, err := cursor.Next(1<<40, 3000)
				if err != nil {
					t.Error(err)
					return
				}
				for _, f := range frames {
					if f.Index != next || record.Checksum(f.Payload) != f.CRC {
						t.Errorf("entry %d, want %d", f.Index, next)
						return
					}
					next++
				}
			}
		})
	}
	for i := uint64(2); i <= last; i += 10 {
		write(t, log, synced(entries(i, min(i+10, last+1), 1, 200)...))
		_, err := log.OffsetAtTime(int64(i))
		require.NoError(t, err)
	}
	readers.Wait()
}

func closed(t *testing.T, log segment.Log) {
	write(t, log, synced(entries(2, 10, 1, 100)...))
	cursor, err := log.NewCursor(0)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	_, err = log.Write(synced(entry(10, 1, 10)))
	require.ErrorIs(t, err, segment.ErrClosed)
	_, err = cursor.Next(100, 100)
	require.ErrorIs(t, err, segment.ErrClosed)
	cursor.Close()
	_, err = log.Entries(2, 3, 100)
	require.ErrorIs(t, err, segment.ErrClosed)
	_, err = log.Term(2)
	require.ErrorIs(t, err, segment.ErrClosed)
	_, _, _, err = log.LoadSnapshot()
	require.ErrorIs(t, err, segment.ErrClosed)
	require.ErrorIs(t, trim(log, 5), segment.ErrClosed)
	require.ErrorIs(t, log.Mark(), segment.ErrClosed)
}
