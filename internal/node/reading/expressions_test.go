package reading

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestExpressionsOfOneHolderDelayThoseOfNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExpressions()
		long, begun := strings.Repeat("x", expressionBurst), time.Now()
		require.NoError(t, e.wait(t.Context(), "mallory", long))
		require.Zero(t, time.Since(begun))
		require.Equal(t, record.Busy, record.RefusalOf(e.wait(t.Context(), "mallory", long)).Reason)
		require.Equal(t, expressionWait, time.Since(begun))
		begun = time.Now()
		require.NoError(t, e.wait(t.Context(), "alice", long))
		require.Zero(t, time.Since(begun))
	})
}
