package hosted

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
)

func TestOnlyALogThatTakesAppendsHoldsItsReadersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Log{Opened: time.Now().Add(-time.Hour)}
		require.False(t, h.Appending(), "nothing was written yet")
		h.Appended.Store(int64(time.Hour))
		require.True(t, h.Appending())
		h.Appended.Store(int64(time.Hour - 2*reading.PacedTime))
		require.False(t, h.Appending())
	})
}
