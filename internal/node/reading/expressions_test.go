package reading

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"strandline.dev/internal/record"
)

func TestExpressionsOfOneHolderDelayThoseOfNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &expressions{of: map[string]*rate.Limiter{}}
		long, begun := strings.Repeat("x", expressionBurst), time.Now()
		require.NoError(t, e.wait(t.Context(), "mallory", long))
		require.Zero(t, time.Since(begun))
		require.NoError(t, e.wait(t.Context(), "mallory", long[:2*expressionRate]))
		require.Equal(t, 2*time.Second, time.Since(begun))
		begun = time.Now()
		require.NoError(t, e.wait(t.Context(), "alice", long))
		require.Zero(t, time.Since(begun))
		require.Equal(t, record.Busy, record.RefusalOf(e.wait(t.Context(), "alice", long)).Reason)
		require.Zero(t, time.Since(begun), "what would wait for too long does not wait")
	})
}

// The reads of a caller who leaves while they wait delay its other reads by expressionWait at most.
func TestReadsThatLeaveWhileTheyWaitKeepNoOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &expressions{of: map[string]*rate.Limiter{}}
		require.NoError(t, e.wait(t.Context(), "alice", strings.Repeat("x", expressionBurst)))
		ctx, cancel := context.WithCancel(t.Context())
		for range 1000 {
			go func() { _ = e.wait(ctx, "alice", strings.Repeat("x", 100)) }()
		}
		synctest.Wait()
		cancel()
		begun := time.Now()
		for e.wait(t.Context(), "alice", "x") != nil {
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(begun), expressionWait)
	})
}

func TestHoldersOfExpressionsAreForgottenWhenTheyAreOwedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &expressions{of: map[string]*rate.Limiter{}}
		for i := range 2 * maxExpressionHolders {
			require.NoError(t, e.wait(t.Context(), strconv.Itoa(i), "x"))
		}
		require.Len(t, e.of, maxExpressionHolders)
		time.Sleep(time.Second)
		require.NoError(t, e.wait(t.Context(), "one more", "x"))
		require.Len(t, e.of, 1)
	})
}
