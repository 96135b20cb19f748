package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/segment/format"
)

func scanOf(t *testing.T, h *format.Header, content []byte) *scan {
	t.Helper()
	s, err := scanFile(memoryFile{bytes.NewReader(content)}, "", h, int64(len(content)), false)
	require.NoError(t, err)
	return s
}

func TestAScanAddsUpTheFrames(t *testing.T) {
	h, content := fuzzSegment()
	s := scanOf(t, h, content)
	require.NoError(t, s.Bad)
	require.Equal(t, int64(len(content)), s.Position)
	require.Equal(t, s.Position, s.marked)
	require.Equal(t, uint64(13), s.index.Next)
	require.Len(t, s.index.Runs, 2)
	require.Equal(t, uint64(10), s.index.Runs[0].First)
	require.Equal(t, uint64(11), s.index.Runs[1].First)
	require.Equal(t, s.index.Points[0].Position+format.FrameSize(12), s.index.Runs[0].End, "the run ends where it is truncated")
}

func TestAFrameThatDoesNotFollowTheOneBeforeIsBad(t *testing.T) {
	h, content := fuzzSegment()
	// A frame whose own checksum is right, from a history that was lost.
	at := format.HeaderSize + format.FrameSize(12)
	f, err := format.ParseFrameHeader(content[at:], at, h.Salt)
	require.NoError(t, err)
	f.Before++
	f.Encode(content[at:], at)
	s := scanOf(t, h, content)
	require.ErrorContains(t, s.Bad, "follows")
	require.Equal(t, at, s.Position)
}

func TestAFrameIsValidInOnePlaceOnly(t *testing.T) {
	h, content := fuzzSegment()
	moved := append(bytes.Clone(content), content[format.HeaderSize:]...)
	s := scanOf(t, h, moved)
	require.Error(t, s.Bad)
	require.Equal(t, int64(len(content)), s.Position)
	_, corrupt, err := s.LookBehind()
	require.NoError(t, err)
	require.False(t, corrupt)
	require.False(t, s.Search(s.Position), "none of the copies is taken for a frame")
}

func TestAWalkerAllocatesNothing(t *testing.T) {
	h, content := fuzzSegment()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		w := format.Walker{Salt: h.Salt, End: int64(len(content))}
		w.Use(content, 0)
		frames := 0
		for w.MoveTo(format.HeaderSize); w.Next(); frames++ {
			if _, valid := w.Payload(); !valid {
				break
			}
		}
		if frames != 7 || w.Bad != nil {
			t.Error(frames, w.Bad)
		}
	}))
}

func TestAFrameBeyondTheEndIsNoneIfTheEndIsKnown(t *testing.T) {
	h, content := fuzzSegment()
	end := int64(len(content))
	last := end - format.FrameSize(format.HardStateSize)
	w := format.Walker{Salt: h.Salt, End: end - 1}
	w.Use(content, 0)
	w.MoveTo(last)
	require.False(t, w.Next())
	require.ErrorContains(t, w.Bad, "runs beyond the end of the segment")
	require.False(t, w.Search(last))

	w.EndUnknown = true // of a file that was cut off
	w.Use(content[:end-1], 0)
	w.MoveTo(last)
	require.True(t, w.Next())
	_, whole := w.Payload()
	require.False(t, whole)
	require.ErrorContains(t, w.Bad, "the file ends within a frame")
	require.Equal(t, last, w.Position)
}
