package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var compressing = []Codec{Gzip, Snappy, LZ4, Zstd}

func TestCodecsHaveKafkasNumbersAndNames(t *testing.T) {
	for number, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		require.Equal(t, name, Codec(number).String())
		c, err := ParseCodec(name)
		require.NoError(t, err)
		require.Equal(t, Codec(number), c)
	}
	require.Equal(t, "codec 5", Codec(5).String())
	_, err := ParseCodec("brotli")
	require.ErrorContains(t, err, `"brotli"`)
}

func TestWhatWasCompressedIsInflatedAgain(t *testing.T) {
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	inputs := map[string][]byte{
		"one byte": {7}, "text": bytes.Repeat([]byte("strandline "), 100_000), "noise": noise,
	}
	for _, c := range compressing {
		for name, input := range inputs {
			t.Run(c.String()+" "+name, func(t *testing.T) {
				small, err := deflate(nil, c, input)
				require.NoError(t, err)
				got, err := inflate(nil, c, small, len(input))
				require.NoError(t, err)
				require.True(t, bytes.Equal(input, got))
				require.LessOrEqual(t, cap(got), len(input), "no more memory than the limit")
				_, err = inflate(nil, c, small, len(input)-1)
				require.ErrorIs(t, err, errInflatesBeyond, "the limit is exact")
			})
		}
	}
}

func TestCompressedBytesThatAreCutShortAreRefused(t *testing.T) {
	input := bytes.Repeat([]byte("strandline "), 1000)
	for _, c := range compressing {
		small, err := deflate(nil, c, input)
		require.NoError(t, err)
		for n := range len(small) {
			got, err := inflate(nil, c, small[:n], MaxInflatedBytes)
			require.True(t, err != nil || len(got) == 0, "%s cut to %d of %d bytes", c, n, len(small))
		}
		_, err = inflate(nil, c, append(small, "trailing"...), MaxInflatedBytes)
		require.Error(t, err, "%s with trailing bytes", c)
	}
}

// bombs are batches of some kilobytes, or for snappy megabytes, whose records
// inflate to a mebibyte more than is allowed.
func bombs(t *testing.T) map[string]Batch {
	const mebibytes = MaxInflatedBytes>>20 + 1
	zeros := make([]byte, 1<<20)

	var gzipped, framed, streamed bytes.Buffer
	g, l := gzip.NewWriter(&gzipped), lz4.NewWriter(&framed)
	z, err := zstd.NewWriter(&streamed) // as a stream: the size is not announced
	require.NoError(t, err)
	_, err = g.Write(zeros)
	require.NoError(t, err)
	for range mebibytes {
		for _, w := range []io.Writer{l, z} {
			_, err := w.Write(zeros)
			require.NoError(t, err)
		}
	}
	for _, w := range []io.Closer{g, l, z} {
		require.NoError(t, w.Close())
	}
	block := s2.EncodeSnappy(nil, zeros)
	xerialBlock := append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...)
	sections := map[string][]byte{
		"gzip":            bytes.Repeat(gzipped.Bytes(), mebibytes),
		"lz4":             framed.Bytes(),
		"snappy":          s2.EncodeSnappy(nil, make([]byte, mebibytes<<20)),
		"snappy, framed":  slices.Concat(xerialMagic, []byte{0, 0, 0, 1, 0, 0, 0, 1}, bytes.Repeat(xerialBlock, mebibytes)),
		"zstd":            streamed.Bytes(),
		"zstd, announced": z.EncodeAll(make([]byte, mebibytes<<20), nil),
	}

	batches := map[string]Batch{}
	for name, section := range sections {
		codec := map[byte]Codec{'g': Gzip, 's': Snappy, 'l': LZ4, 'z': Zstd}[name[0]]
		batches[name] = kafkaBatch([]Record{{}}, section, func(k *kmsg.RecordBatch) { k.Attributes = int16(codec) })
	}
	return batches
}

// allocated returns how many bytes f allocates in all, dead or alive.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestABombCostsBoundedMemory(t *testing.T) {
	const costMax = uint64(MaxInflatedBytes/4*9 + 8<<20) // all that is allocated, dead or alive, and a codec's state
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			cost := allocated(func() {
				err := bomb.Check()
				requireReason(t, err, TooLarge)
				require.Equal(t, int64(MaxInflatedBytes), err.(*Refusal).Limit)
			})
			require.Less(t, cost, costMax)

			cost = allocated(func() {
				for _, err := range bomb.Records {
					requireReason(t, err, Corrupt)
				}
			})
			require.Less(t, cost, costMax)
		})
	}
}

func TestAnAnnouncedSizeCostsNothingUntilItIsHonoured(t *testing.T) {
	announced := uint64(MaxInflatedBytes - 1)
	zstdFrame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // one segment, size in four bytes
	zstdFrame = binary.LittleEndian.AppendUint32(zstdFrame, uint32(announced))
	zstdFrame = append(zstdFrame, 0x03, 0, 0, 0) // a last RLE block of no bytes
	snappyBlock := append(binary.AppendUvarint(nil, announced), 0, 'x')
	cases := map[string]struct {
		codec Codec
		bytes []byte
	}{
		"zstd":           {Zstd, zstdFrame},
		"snappy":         {Snappy, snappyBlock},
		"snappy, framed": {Snappy, append(append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, byte(len(snappyBlock))), snappyBlock...)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := inflate(nil, c.codec, c.bytes, MaxInflatedBytes) // the codec's own state is made here
			require.ErrorIs(t, err, errAnnounced)
			require.Less(t, allocated(func() { _, _ = inflate(nil, c.codec, c.bytes, MaxInflatedBytes) }), uint64(2<<20))
		})
	}
}

func TestAWindowForTheHighestZstdLevelIsNoObstacle(t *testing.T) {
	// The window is written as the command line tool does at level 22.
	section := golden(t, "zstd-ultra")[BatchHeaderSize:]
	var header zstd.Header
	require.NoError(t, header.Decode(section))
	require.EqualValues(t, zstdWindowMax, header.WindowSize)
	require.Less(t, allocated(func() {
		_, err := inflate(nil, Zstd, section, MaxInflatedBytes)
		require.NoError(t, err)
	}), uint64(4<<20))
}

func TestXerialFramingThatIsBrokenIsRefused(t *testing.T) {
	block := s2.EncodeSnappy(nil, []byte("record"))
	head := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(block)))
	cases := map[string][]byte{
		"no versions":             xerialMagic,
		"half a block length":     append(bytes.Clone(head), 0, 0),
		"block beyond the end":    append(append(bytes.Clone(head), length...), block[:len(block)-1]...),
		"block length of 4 GiB":   append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff),
		"block that is no snappy": append(bytes.Clone(head), 0, 0, 0, 1, 0x80),
	}
	for name, framed := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := inflate(nil, Snappy, framed, MaxInflatedBytes)
			require.Error(t, err)
		})
	}
}

func TestAnS2ExtensionInASnappyBlockIsRefused(t *testing.T) {
	// Two literals, a copy at distance 2, and one at distance 0, which S2 reads
	// as "the distance before".
	extended := []byte{10, 1 << 2, 'a', 'b', 1, 2, 1, 0}
	got, err := s2.Decode(nil, extended)
	require.NoError(t, err)
	require.Equal(t, "ababababab", string(got))
	_, err = inflate(nil, Snappy, extended, MaxInflatedBytes)
	require.Error(t, err)
}

func TestAnAnnouncedSizeThatIsHonestIsTheMemoryItCosts(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := encoder.EncodeAll(bytes.Repeat([]byte("0123456789"), 100), nil)
	got, err := inflate(nil, Zstd, frame, MaxInflatedBytes)
	require.NoError(t, err)
	require.Equal(t, 1000, cap(got))
}

func TestALargeBatchDoesNotHoldItsScratchForEver(t *testing.T) {
	s := scratch{bytes: make([]byte, scratchKept+1)}
	s.trim()
	require.Nil(t, s.bytes)
	s = scratch{bytes: make([]byte, scratchKept)}
	s.trim()
	require.Len(t, s.bytes, scratchKept)
}

// Headers of lz4 frames with blocks of up to 64 KiB and no checksums, as the
// command line tool writes them.
var (
	lz4Independent = []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}
	lz4Linked      = []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0}
	lz4EndMark     = []byte{0, 0, 0, 0}
)

func TestAnLZ4FrameOfLinkedBlocksIsRefused(t *testing.T) {
	_, err := inflate(nil, LZ4, slices.Concat(lz4Linked, lz4EndMark), MaxInflatedBytes)
	require.ErrorIs(t, err, errLinkedBlocks)
}

// One producer's frame must not be able to quote another's. A reader of frames
// keeps the end of linked blocks at hand, and resetting it does not clear that.
func TestAnLZ4FrameDoesNotSeeTheFrameBefore(t *testing.T) {
	storedBlock := []byte{8, 0, 0, 0x80, 's', 'e', 'c', 'r', 'e', 't', '!', '!'}
	victim := slices.Concat(lz4Independent, lz4EndMark, lz4Linked, storedBlock, lz4EndMark)
	got, err := inflate(nil, LZ4, victim, MaxInflatedBytes)
	require.NoError(t, err)
	require.Equal(t, "secret!!", string(got))

	// Copy 8 bytes from 8 bytes before the beginning; then 5 literals.
	block := []byte{0x04, 8, 0, 0x50, 'x', 'x', 'x', 'x', 'x'}
	thief := slices.Concat(lz4Independent, []byte{byte(len(block)), 0, 0, 0}, block, lz4EndMark)
	got, err = inflate(nil, LZ4, thief, MaxInflatedBytes)
	require.Error(t, err, "got %q", got)
}

func TestCodecsAreUsedByManyBesideEachOther(t *testing.T) {
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 20 {
				c := compressing[(w+i)%len(compressing)]
				value := []byte(fmt.Sprintf("worker %d, record %d", w, i))
				var b Builder
				if err := b.Add(Record{Value: bytes.Repeat(value, 100)}); err != nil {
					t.Error(err)
				}
				batch, err := b.Finish(c)
				if err != nil {
					t.Error(err)
				}
				if err := batch.Check(); err != nil {
					t.Error(err)
				}
				for r, err := range batch.Records {
					if err != nil || !bytes.HasPrefix(r.Value, value) {
						t.Errorf("%s: %q, %v", c, r.Value, err)
					}
				}
			}
		})
	}
	workers.Wait()
}
