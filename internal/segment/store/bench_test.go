package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/cost"
)

func benchmarkStore(b *testing.B) *Store {
	s, err := Create(vfs.OS(), b.TempDir()+"/log", Options{}, segment.Bootstrap{Index: 1, Term: 1})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// BenchmarkWrite is one durable write of one entry: a lone append, a group of
// 128, and the largest group.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			s := benchmarkStore(b)
			payload := make([]byte, size)
			frames := []segment.Entry{{Term: 1, Count: 1, Payload: payload, CRC: record.Checksum(payload)}}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := uint64(2); b.Loop(); i++ {
				frames[0].Index, frames[0].First = i, record.Offset(i)
				if _, err := s.Write([]segment.Write{{Entries: frames, MustSync: true}}); err != nil {
					b.Fatal(err)
				}
				if i%512 == 0 {
					trim(b, s, i)
				}
			}
		})
	}
}

// BenchmarkDatasync is the floor under BenchmarkWrite: a plain write and sync
// in a file that is filled already.
func BenchmarkDatasync(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			f := filledFile(b)
			payload := make([]byte, size)
			b.SetBytes(int64(size))
			for position := int64(0); b.Loop(); position = (position + int64(size)) % (62 << 20) {
				if _, err := f.WriteAt(payload, position); err != nil {
					b.Fatal(err)
				}
				if err := f.Datasync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func filledFile(b *testing.B) vfs.File {
	f, err := vfs.OS().Create(b.TempDir() + "/file")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	for position := int64(0); position < 64<<20; position += fillStep {
		_, err := f.WriteAt(zeros[:], position)
		require.NoError(b, err)
	}
	require.NoError(b, f.Datasync())
	return f
}

// BenchmarkWriteMany is 128 entries of 2 KiB in one durable write.
func BenchmarkWriteMany(b *testing.B) {
	s := benchmarkStore(b)
	payload := make([]byte, 2<<10)
	frames := make([]segment.Entry, 128)
	b.SetBytes(128 * 2 << 10)
	b.ReportAllocs()
	for i := uint64(2); b.Loop(); i += 128 {
		for k := range frames {
			frames[k] = segment.Entry{Index: i + uint64(k), Term: 1, First: record.Offset(i) + record.Offset(k), Count: 1, Payload: payload, CRC: 1}
		}
		if _, err := s.Write([]segment.Write{{Entries: frames, MustSync: true}}); err != nil {
			b.Fatal(err)
		}
		if i%(512*128) == 2 {
			trim(b, s, i)
		}
	}
}

// trim keeps the disk from filling up, and gives the log recycled files.
func trim(b *testing.B, s *Store, i uint64) {
	if err := s.SaveSnapshot(i-1, 1, nil); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Trim(i); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGather compares one copied buffer with a vector, without a sync:
// the reason for referenceFrom.
func BenchmarkGather(b *testing.B) {
	for _, size := range []int{2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		for _, way := range []string{"copy", "vector"} {
			b.Run(fmt.Sprint(size>>10, "KiB/", way), func(b *testing.B) {
				f := filledFile(b)
				var err error
				payload, header := make([]byte, size), make([]byte, format.FrameHeaderSize)
				buffer := make([]byte, 0, size+format.FrameHeaderSize)
				b.SetBytes(int64(size))
				for position := int64(0); b.Loop(); position = (position + int64(size)) % (62 << 20) {
					if way == "copy" {
						buffer = append(append(buffer[:0], header...), payload...)
						err = f.WriteVector([][]byte{buffer}, position)
					} else {
						err = f.WriteVector([][]byte{header, payload}, position)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCursor reads a log of 1 GiB once per loop.
func BenchmarkCursor(b *testing.B) {
	s := benchmarkStore(b)
	payload := make([]byte, 256<<10)
	const count = 4096
	for i := uint64(2); i < count+2; i++ {
		f := segment.Entry{Index: i, Term: 1, First: record.Offset(i - 2), Count: 1, Payload: payload, CRC: record.Checksum(payload)}
		_, err := s.Write([]segment.Write{{Entries: []segment.Entry{f}}})
		require.NoError(b, err)
	}
	b.SetBytes(count * int64(len(payload)))
	for b.Loop() {
		c, err := s.NewCursor(0)
		require.NoError(b, err)
		for read := 0; read < count; {
			frames, err := c.Next(math.MaxInt64, 1<<20)
			require.NoError(b, err)
			read += len(frames)
		}
		c.Close()
	}
}

// BenchmarkRecover opens a log whose newest segment has 48 MiB of entries of 2 KiB.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir() + "/log"
	s, err := Create(vfs.OS(), dir, Options{Manual: true}, segment.Bootstrap{Index: 1, Term: 1})
	require.NoError(b, err)
	fill(b, s, 48<<20, 2<<10)
	require.NoError(b, s.Close())
	b.SetBytes(48 << 20)
	b.ReportAllocs()
	for b.Loop() {
		s, err := Recover(vfs.OS(), dir, Options{Manual: true})
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}

// fill writes so many bytes of entries, all of a size.
func fill(b *testing.B, s *Store, bytes, size int) {
	payload := make([]byte, size)
	for i := range uint64(bytes / size) {
		f := segment.Entry{Index: i + 2, Term: 1, First: record.Offset(i), Count: 1, Payload: payload, CRC: record.Checksum(payload)}
		_, err := s.Write([]segment.Write{{Entries: []segment.Entry{f}}})
		require.NoError(b, err)
	}
}

// BenchmarkCursorOfSmallEntries reads 32 MiB of entries of 1 KiB, which the page cache has,
// once per loop.
func BenchmarkCursorOfSmallEntries(b *testing.B) {
	s := benchmarkStore(b)
	fill(b, s, 32<<20, 1<<10)
	b.SetBytes(32 << 20)
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.NewCursor(0)
		require.NoError(b, err)
		for read := 0; read < 32<<10; {
			frames, err := c.Next(math.MaxInt64, 1<<20)
			require.NoError(b, err)
			read += len(frames)
		}
		c.Close()
	}
}

// BenchmarkEntries reads 16 entries of 1 KiB, as for a follower.
func BenchmarkEntries(b *testing.B) {
	s := benchmarkStore(b)
	fill(b, s, 32<<20, 1<<10)
	b.SetBytes(16 << 10)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i = (i + 16) % (31 << 10) {
		if _, err := s.Entries(i+2, i+18, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoll is one durable write of a log that is trimmed as fast as it is written:
// a segment of 8 MiB fills every few dozen writes. With recycling, and with files that
// bytes were sent of, which are removed: the reason for recycling.
func BenchmarkRoll(b *testing.B) {
	for _, size := range []int{16 << 10, 128 << 10} {
		for _, files := range []string{"recycled", "sent"} {
			b.Run(fmt.Sprint(size>>10, "KiB/", files), func(b *testing.B) { benchmarkRoll(b, size, files == "sent") })
		}
	}
}

func benchmarkRoll(b *testing.B, size int, sent bool) {
	s, err := Create(vfs.OS(), b.TempDir()+"/log", Options{SegmentBytes: 8 << 20}, segment.Bootstrap{Index: 1, Term: 1})
	require.NoError(b, err)
	payload := make([]byte, size)
	frames := []segment.Entry{{Term: 1, Count: 1, Payload: payload, CRC: record.Checksum(payload)}}
	rolled := make(chan uint64, 1)
	var upkeep sync.WaitGroup
	upkeep.Go(func() {
		for i := range rolled {
			for _, seg := range s.all() {
				seg.sent.Store(sent)
			}
			trim(b, s, i)
		}
	})
	var took []time.Duration
	b.SetBytes(int64(size))
	for i := uint64(2); b.Loop(); i++ {
		frames[0].Index, frames[0].First = i, record.Offset(i)
		begin := time.Now()
		result, err := s.Write([]segment.Write{{Entries: frames, MustSync: true}})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		for _, first := range result.Rolled {
			rolled <- first
		}
	}
	close(rolled)
	upkeep.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	require.NoError(b, s.Close())
}

// BenchmarkManyLogs has 128 writers, each of which appends 2 KiB to one of many logs, chosen at random,
// and waits until it is durable. A log has one write in progress; those who come meanwhile share the
// next.
func BenchmarkManyLogs(b *testing.B) {
	for _, logs := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(logs), func(b *testing.B) { benchmarkManyLogs(b, logs) })
	}
}

func benchmarkManyLogs(b *testing.B, n int) {
	const writers = 128
	dir := b.TempDir()
	logs := make([]*sharedLog, n)
	for i := range logs {
		s, err := Create(vfs.OS(), fmt.Sprint(dir, "/", i), Options{}, segment.Bootstrap{Index: 1, Term: 1})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		logs[i] = &sharedLog{store: s, next: 2}
	}
	payload := make([]byte, 2<<10)
	entry := segment.Entry{Term: 1, Count: 1, Payload: payload, CRC: record.Checksum(payload)}
	var begun atomic.Int64
	var running sync.WaitGroup
	before := cost.Worked()
	b.ResetTimer()
	for w := range writers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for begun.Add(1) <= int64(b.N) {
				if err := logs[random.IntN(n)].append(entry); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64((cost.Worked()-before).Microseconds())/float64(b.N), "processor-us/op")
}

// sharedLog lets many goroutines append to a Store.
type sharedLog struct {
	store   *Store
	mu      sync.Mutex
	next    uint64
	waiting []segment.Entry
	written chan struct{} // closed when waiting is durable
	writing bool
}

func (l *sharedLog) append(e segment.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Index, e.First = l.next, record.Offset(l.next)
	l.next++
	l.waiting = append(l.waiting, e)
	if l.written == nil {
		l.written = make(chan struct{})
	}
	if l.writing {
		written := l.written
		l.mu.Unlock()
		<-written
		l.mu.Lock()
		return nil // or the writer has reported the error
	}
	l.writing = true
	defer func() { l.writing = false }()
	for len(l.waiting) > 0 {
		entries, written := l.waiting, l.written
		l.waiting, l.written = nil, nil
		l.mu.Unlock()
		_, err := l.store.Write([]segment.Write{{Entries: entries, MustSync: true}})
		close(written)
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
