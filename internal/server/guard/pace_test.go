package guard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

func TestListsAndNewLogsOfOnePrincipalComeAtAFiniteRate(t *testing.T) {
	bob, alice := verbs.Caller{By: &Holder{Principal: "user/bob"}}, verbs.Caller{By: &Holder{Principal: "user/alice"}}
	for what, one := range map[string]struct {
		rate  int
		rates *budget.Rates
	}{
		"lists":    {listRate, newPaces().lists},
		"new logs": {createRate, newPaces().creations},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := func(c verbs.Caller, n int) (time.Duration, error) {
					begun := time.Now()
					err := pace(t.Context(), one.rates, c, n, "%d a second", one.rate)
					return time.Since(begun), err
				}
				for _, c := range []verbs.Caller{bob, alice} {
					waited, err := took(c, one.rate)
					require.NoError(t, err)
					require.Zero(t, waited)
				}
				waited, err := took(bob, 1)
				require.NoError(t, err)
				require.Equal(t, time.Second/time.Duration(one.rate), waited)
				for range 3 {
					_, _ = took(bob, one.rate)
				}
				go func() { _, _ = took(bob, one.rate) }()
				go func() { _, _ = took(bob, one.rate) }()
				synctest.Wait()
				waited, err = took(bob, one.rate)
				require.Equal(t, paceWait, waited)
				refused := record.RefusalOf(err)
				require.Equal(t, record.Busy, refused.Reason)
				require.True(t, refused.OwnShare)
			})
		})
	}
}

// Administrators, and the server itself, are not slowed down.
func TestOnlyPrincipalsWithSharesHaveAPace(t *testing.T) {
	t.Parallel()
	g := enforcing(t)
	ended, end := context.WithCancel(t.Context())
	end()
	bob := userOf(t, g, "bob")
	require.ErrorIs(t, g.PaceList(ended, bob), context.Canceled)
	require.NoError(t, g.PaceList(ended, verbs.Caller{System: true}))
	require.NoError(t, g.paceCreation(ended, bob, 1), "whoever administers the cluster has no creator")
	bob.Creator = "user/bob"
	require.ErrorIs(t, g.paceCreation(ended, bob, 1), context.Canceled)
}
