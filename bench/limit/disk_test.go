package limit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAScratchFileLeavesNothingBehind(t *testing.T) {
	directory := t.TempDir()
	s, err := NewScratch(directory)
	require.NoError(t, err)
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

func TestSyncsAreMeasuredBesideBareWrites(t *testing.T) {
	s, err := NewScratch(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	cost, err := s.Sync(t.Context(), 256<<10, 20*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, cost.Synced.TotalCount())
	require.Equal(t, cost.Synced.TotalCount(), cost.Written.TotalCount())
	require.Equal(t, 256<<10, cost.Bytes)
}

func TestAScratchFileWrapsAround(t *testing.T) {
	s, err := NewScratch(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	s.position = scratchBytes - 1
	require.NoError(t, s.write(make([]byte, 2)))
	require.EqualValues(t, 2, s.position)
	info, err := s.file.Stat()
	require.NoError(t, err)
	require.EqualValues(t, scratchBytes, info.Size())
}

func TestCatReadsTheSegmentsAndNothingElse(t *testing.T) {
	directory := t.TempDir()
	deep := filepath.Join(directory, "logs", "orders", "1")
	require.NoError(t, os.MkdirAll(deep, 0o755))
	for name, size := range map[string]int{"0001.seg": 3 << 20, "0002.seg": 5, "0002.snap": 7} {
		require.NoError(t, os.WriteFile(filepath.Join(deep, name), make([]byte, size), 0o644))
	}
	link := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Symlink(directory, link))
	linked, err := Segments(link)
	require.NoError(t, err)
	require.Len(t, linked, 2)
	files, err := Segments(directory)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.NoError(t, Forget(files))

	files = append(files, filepath.Join(deep, "recycled meanwhile.seg"))
	moved, err := Cat(t.Context(), files)
	require.NoError(t, err)
	require.EqualValues(t, 3<<20+5, moved.Bytes)
	require.Positive(t, moved.MiBPerSecond())
}

func TestQuantilesComeBackWithinThreeDigits(t *testing.T) {
	h := NewHistogram()
	for us := 1; us <= 1000; us++ {
		Observe(h, time.Duration(us)*time.Microsecond)
	}
	require.InEpsilon(t, 500, Microseconds(h, 50), 0.002)
	require.InEpsilon(t, 990, Microseconds(h, 99), 0.002)
	require.InEpsilon(t, 999, Microseconds(h, 99.9), 0.002)
}

func TestALatencyBeyondTheRangeCountsAsItsEnd(t *testing.T) {
	h := NewHistogram()
	Observe(h, 0)
	Observe(h, time.Hour)
	require.EqualValues(t, 2, h.TotalCount())
	require.InEpsilon(t, latencyMax.Microseconds(), Microseconds(h, 100), 0.002)
}
