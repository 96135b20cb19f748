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
		require.NoError(t, e.wait(t.Context(), "mallory", long))
		require.Equal(t, expressionBurst/expressionRate*time.Second, time.Since(begun))
		begun = time.Now()
		require.NoError(t, e.wait(t.Context(), "alice", long))
		require.Zero(t, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var refusal *record.Refusal
		require.ErrorAs(t, e.wait(ctx, "alice", long), &refusal)
		require.Equal(t, record.Busy, refusal.Reason, "it would wait for longer than its time")
		require.NoError(t, e.wait(ctx, "alice", long[:expressionRate/2]), "and has taken nothing")
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
