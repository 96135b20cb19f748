package segment

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func scanOf(t *testing.T, h *header, content []byte) *scanner {
	t.Helper()
	s := &scanner{file: memoryFile{bytes.NewReader(content)}, header: h, size: int64(len(content))}
	require.NoError(t, s.scan())
	return s
}

func TestAScanAddsUpTheFrames(t *testing.T) {
	h, content := fuzzSegment()
	s := scanOf(t, h, content)
	require.NoError(t, s.bad)
	require.Equal(t, int64(len(content)), s.position)
	require.Equal(t, s.position, s.marked)
	require.Equal(t, uint64(13), s.index.next)
	require.Len(t, s.index.runs, 2)
	require.Equal(t, uint64(10), s.index.runs[0].first)
	require.Equal(t, uint64(11), s.index.runs[1].first)
	require.Equal(t, s.index.points[0].position+frameSize(12), s.index.runs[0].end, "the run ends where it is superseded")
}

func TestAFrameThatDoesNotFollowTheOneBeforeIsBad(t *testing.T) {
	h, content := fuzzSegment()
	// A frame whose own checksum is right, from a history that was lost.
	at := headerSize + frameSize(12)
	f, err := parseFrameHeader(content[at:], at, h.salt)
	require.NoError(t, err)
	f.before++
	f.encode(content[at:], at)
	s := scanOf(t, h, content)
	require.ErrorContains(t, s.bad, "follows")
	require.Equal(t, at, s.position)
}

func TestAFrameIsValidInOnePlaceOnly(t *testing.T) {
	h, content := fuzzSegment()
	moved := append(bytes.Clone(content), content[headerSize:]...)
	s := scanOf(t, h, moved)
	require.Error(t, s.bad)
	require.Equal(t, int64(len(content)), s.position)
	require.NoError(t, s.lookBehind())
	require.False(t, s.corrupt)
	require.Zero(t, s.lastIndex, "none of the copies is taken for a frame")
}
