package archives

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
)

func TestARestoreBeginsBehindTheLastGapOfAnArchive(t *testing.T) {
	parts := []archive.Part{{First: 0, End: 10}, {First: 10, End: 20}, {First: 25, End: 30}, {First: 30, End: 40}}
	m := &archive.Manifest{Objects: parts}
	require.Equal(t, parts[2:], lastRun(m).Objects)
	require.Len(t, m.Objects, 4)
	m.Objects = parts[:2]
	require.Equal(t, parts[:2], lastRun(m).Objects)
}
