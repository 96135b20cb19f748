package segment_test

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// batchEntry is the entry i of a log of batches of 40 KB.
func batchEntry(i uint64) segment.Entry {
	batch := bytes.Repeat([]byte{byte(i)}, 40_000)
	first := record.Offset(i - 2)
	payload := record.AppendEntryHeader(nil, record.Entry{Kind: record.EntryBatches, Batches: 1, First: first, Count: 1})
	payload = append(record.AppendMeta(payload, record.BatchMeta{Size: uint32(len(batch)), Count: 1}), batch...)
	return segment.Entry{Index: i, Term: 1, First: first, Count: 1, CRC: record.Checksum(payload), Payload: payload}
}

// inFlight is what a socket was given of a file. It keeps the file itself, as a socket
// keeps the pages, whatever its name is by now.
type inFlight struct {
	file    *os.File
	batches []segment.StoredBatch
	want    [][]byte
}

// sendFirst gives out stored batches of the first segment of a log, and releases them.
func sendFirst(t *testing.T, s *store.Store) *inFlight {
	t.Helper()
	c, err := s.NewCursor(0)
	require.NoError(t, err)
	_, err = c.Next(20, math.MaxInt) // verifies
	require.NoError(t, err)
	c.Close()
	c, err = s.NewCursor(0)
	require.NoError(t, err)
	defer c.Close()
	run, ok := c.(segment.StoredCursor).NextStored(10, math.MaxInt)
	require.True(t, ok)
	file, err := os.Open(run.File.(interface{ Name() string }).Name())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	f := &inFlight{file: file, batches: run.Batches}
	for _, b := range f.batches {
		f.want = append(f.want, f.read(t, b))
	}
	require.Equal(t, batchEntry(2).Payload[len(batchEntry(2).Payload)-40_000:], f.want[0])
	run.Release()
	return f
}

func (f *inFlight) read(t *testing.T, b segment.StoredBatch) []byte {
	t.Helper()
	got := make([]byte, b.Size)
	_, err := f.file.ReadAt(got, b.Position)
	require.NoError(t, err)
	return got
}

func (f *inFlight) requireUnchanged(t *testing.T) {
	t.Helper()
	for i, b := range f.batches {
		require.Equal(t, f.want[i], f.read(t, b), "batch %d was sent by reference and is overwritten", i)
	}
}

func TestBytesThatWereSentByReferenceAreNeverWrittenAgain(t *testing.T) {
	const last = 80 // three segments
	o := store.Options{SegmentBytes: 1 << 20, Manual: true, Logger: slog.New(slog.DiscardHandler)}
	create := func(t *testing.T) (s *store.Store, dir string) {
		dir = t.TempDir() + "/log"
		s, err := store.Create(vfs.OS(), dir, o, bootstrap())
		require.NoError(t, err)
		for i := uint64(2); i <= last; i++ {
			saveStarts(t, s, write(t, s, []segment.Write{{Entries: []segment.Entry{batchEntry(i)}}}))
		}
		return s, dir
	}
	spares := func(t *testing.T, dir string) int {
		infos, err := vfs.OS().List(dir)
		require.NoError(t, err)
		n := 0
		for _, info := range infos {
			if bytes.HasSuffix([]byte(info.Name), []byte(".spare")) {
				n++
			}
		}
		return n
	}
	// roll trims the log again and again, and begins segments in whatever files there are.
	roll := func(t *testing.T, s *store.Store) {
		for i, end := s.LastIndex()+1, s.LastIndex()+110; i < end; i++ {
			result := write(t, s, []segment.Write{{Entries: []segment.Entry{batchEntry(i)}}})
			saveStarts(t, s, result)
			for _, first := range result.Rolled {
				require.NoError(t, trim(s, first))
				_, err := s.Prepare()
				require.NoError(t, err)
			}
		}
	}
	for name, meanwhile := range map[string]func(t *testing.T, s *store.Store, dir string) *store.Store{
		"its segment is trimmed": func(t *testing.T, s *store.Store, dir string) *store.Store {
			before := spares(t, dir)
			require.NoError(t, trim(s, last))
			require.Greater(t, spares(t, dir), before, "the segment of which nothing was sent is recycled")
			return s
		},
		"the log is opened again": func(t *testing.T, s *store.Store, dir string) *store.Store {
			require.NoError(t, s.Close())
			s, err := store.Recover(vfs.OS(), dir, o)
			require.NoError(t, err)
			roll(t, s)
			return s
		},
		// What follows removes files and makes none of their bytes a spare, whether they were sent or not: it fails
		// where one of these begins to recycle files too, and does not ask what was sent of them.
		"the log is reset": func(t *testing.T, s *store.Store, dir string) *store.Store {
			require.NoError(t, s.Reset(1000, 1, 998, segment.HardState{Term: 1, Commit: 1000}, []byte("state at 1000")))
			return s
		},
		"the log is made anew": func(t *testing.T, s *store.Store, dir string) *store.Store {
			require.NoError(t, s.Close())
			require.NoError(t, os.RemoveAll(dir))
			s, err := store.Create(vfs.OS(), dir, o, bootstrap())
			require.NoError(t, err)
			return s
		},
		"its segment is repaired": func(t *testing.T, s *store.Store, dir string) *store.Store {
			giver, _ := create(t)
			defer func() { require.NoError(t, giver.Close()) }()
			c, err := s.NewCursor(0)
			require.NoError(t, err)
			run, ok := c.(segment.StoredCursor).NextStored(10, math.MaxInt)
			require.True(t, ok)
			name := run.File.(interface{ Name() string }).Name()
			run.Release()
			c.Close()
			require.NoError(t, repairFile(s, giver, name, last, func() {}))
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := create(t)
			sent := sendFirst(t, s)
			s = meanwhile(t, s, dir)
			roll(t, s)
			sent.requireUnchanged(t)
			require.NoError(t, s.Close())
		})
	}
}

// Versions before recycled segments of which bytes may still be in sockets. Their spares
// hold what the segments held.
func TestASpareThatWasASegmentIsRemovedWhenTheLogOpens(t *testing.T) {
	o := store.Options{SegmentBytes: 1 << 20, Manual: true, Logger: slog.New(slog.DiscardHandler)}
	dir := t.TempDir() + "/log"
	s, err := store.Create(vfs.OS(), dir, o, bootstrap())
	require.NoError(t, err)
	for i := uint64(2); i < 80; i++ {
		saveStarts(t, s, write(t, s, []segment.Write{{Entries: []segment.Entry{batchEntry(i)}}}))
	}
	_, err = s.Prepare()
	require.NoError(t, err)
	require.NoError(t, trim(s, 79))
	require.NoError(t, s.Close())
	left := func() (unused, used int) {
		infos, err := vfs.OS().List(dir)
		require.NoError(t, err)
		for _, info := range infos {
			if !bytes.HasSuffix([]byte(info.Name), []byte(".spare")) {
				continue
			}
			file, err := os.Open(dir + "/" + info.Name)
			require.NoError(t, err)
			head := make([]byte, 8)
			_, err = io.ReadFull(file, head)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			if bytes.Equal(head, make([]byte, 8)) {
				unused++
			} else {
				used++
			}
		}
		return unused, used
	}
	unused, used := left()
	require.Equal(t, []int{1, 1}, []int{unused, used})
	s, err = store.Recover(vfs.OS(), dir, o)
	require.NoError(t, err)
	unused, used = left()
	require.Equal(t, []int{1, 0}, []int{unused, used})
	require.NoError(t, s.Close())
}
