package record

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// half has half of its bytes from a small alphabet.
func half(size int) []byte {
	source := rand.NewChaCha8([32]byte{7})
	b := make([]byte, size)
	_, _ = source.Read(b)
	for i := range b[:size/2] {
		b[i] = 'a' + b[i]&3
	}
	return b
}

func TestOthersRunBesideTheInflatingOfALargeBatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const bytes = 8 << 20
	for _, c := range []Codec{Gzip, LZ4, Zstd} {
		batch := build(t, c, Record{Value: make([]byte, bytes)})
		var others atomic.Int64
		var ended atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !ended.Load() {
				others.Add(1)
				runtime.Gosched()
			}
		}()
		runtime.Gosched()
		before := others.Load()
		var w Walk
		_, err := w.Begin(batch, nil, MaxInflatedBytes)
		inflated := others.Load() - before
		w.Keep()
		kept := others.Load() - before - inflated
		ended.Store(true)
		<-done
		require.NoError(t, err)
		require.GreaterOrEqual(t, inflated, int64(bytes/pieceBytes/2), c)
		require.GreaterOrEqual(t, kept, int64(bytes/pieceBytes/2), c)
	}
}

func TestFramesOfZstdAreInflatedInPieces(t *testing.T) {
	var sections, values [][]byte
	for _, size := range []int{0, 1, 100_000, pieceBytes, 2*pieceBytes + 1, 3_000_000} {
		for _, window := range []int{zstd.MinWindowSize, 512 << 10} {
			for _, flags := range []bool{false, true} {
				e, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(flags), zstd.WithEncoderCRC(!flags), zstd.WithZeroFrames(true))
				require.NoError(t, err)
				sections, values = append(sections, e.EncodeAll(half(size), nil)), append(values, half(size))
				var streamed bytes.Buffer // its size is not announced
				e.Reset(&streamed)
				_, err = e.Write(half(size))
				require.NoError(t, err)
				require.NoError(t, e.Close())
				sections, values = append(sections, streamed.Bytes()), append(values, half(size))
			}
		}
	}
	skipped := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	sections, values = append(sections, slices.Concat(sections[len(sections)-1], skipped, sections[len(sections)-2])), append(values, slices.Concat(half(3_000_000), half(3_000_000)))
	for i, section := range sections {
		got, err := inflateZstdFrames(nil, section, MaxInflatedBytes)
		require.NoError(t, err)
		require.True(t, bytes.Equal(values[i], got), "section %d", i)
		got, err = inflateZstd(nil, section, len(values[i]))
		require.NoError(t, err)
		require.True(t, bytes.Equal(values[i], got), "section %d", i)
		if len(values[i]) > 0 {
			_, err = inflateZstd(nil, section, len(values[i])-1)
			require.ErrorIs(t, err, errInflatesBeyond, "section %d", i)
		}
	}
}

func TestAWindowOfZstdIsNoLargerThanItsFrame(t *testing.T) {
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstdWindowMax))
	require.NoError(t, err)
	var streamed bytes.Buffer
	e.Reset(&streamed)
	_, err = e.Write(half(1 << 20))
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.Less(t, allocated(func() {
		_, err := inflate(nil, Zstd, streamed.Bytes(), MaxInflatedBytes)
		require.NoError(t, err)
	}), uint64(6<<20))
}

func TestABufferOfTheRightSizeIsNotGrown(t *testing.T) {
	batch := build(t, Zstd, Record{Value: make([]byte, 8<<20)})
	var w Walk
	require.Less(t, allocated(func() {
		_, err := w.Begin(batch, nil, MaxInflatedBytes)
		require.NoError(t, err)
	}), uint64(18<<20), "the buffer and the window")
}

func TestAFrameWithALargerWindowThanOtherProgramsHaveIsRefused(t *testing.T) {
	for _, size := range []int{1 << 20, 1 << 10} { // inflated in pieces, and at once
		for _, window := range []int{zstdWindowMax, 2 * zstdWindowMax} {
			e, err := zstd.NewWriter(nil, zstd.WithWindowSize(512<<10))
			require.NoError(t, err)
			records := []Record{{Value: half(size)}}
			var streamed bytes.Buffer
			e.Reset(&streamed)
			_, err = e.Write(kafkaRecords(records))
			require.NoError(t, err)
			require.NoError(t, e.Flush()) // or the frame is a single segment
			require.NoError(t, e.Close())
			section := streamed.Bytes()
			section[zstdWindowAt] = zstdWindow(window)
			var header zstd.Header
			require.NoError(t, header.Decode(section))
			require.EqualValues(t, window, header.WindowSize)
			err = kafkaBatch(records, section, func(b *kmsg.RecordBatch) { b.Attributes = int16(Zstd) }).Check()
			if window == zstdWindowMax {
				require.NoError(t, err)
				continue
			}
			var r *Refusal
			require.ErrorAs(t, err, &r, "%d bytes", size)
			require.Equal(t, Invalid, r.Reason)
			require.ErrorContains(t, err, "window")
			one := bytes.Clone(section)
			one[zstdWindowAt] = zstdWindow(zstdWindowMax)
			_, err = inflate(nil, Zstd, slices.Concat(one, section), MaxInflatedBytes)
			require.ErrorIs(t, err, errWindow, "also of a frame behind the first")
		}
	}
}
