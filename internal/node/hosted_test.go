package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
)

func TestOnlyALogThatTakesAppendsHoldsItsReadersBack(t *testing.T) {
	h := &hosted{opened: time.Now().Add(-time.Hour)}
	require.False(t, h.Appending(), "nothing was written yet")
	h.appended.Store(int64(time.Hour))
	require.True(t, h.Appending())
	h.appended.Store(int64(time.Hour - 2*reading.PacedTime))
	require.False(t, h.Appending())
}
