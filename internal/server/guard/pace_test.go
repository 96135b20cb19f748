package guard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

func TestListsAndNewLogsOfOnePrincipalComeAtAFiniteRate(t *testing.T) {
	bob, alice := verbs.Caller{By: &Holder{Principal: "user/bob"}}, verbs.Caller{By: &Holder{Principal: "user/alice"}}
	for what, one := range map[string]struct {
		rate    int
		longest time.Duration
		rates   *budget.Rates
	}{
		"lists":    {listRate, listWait, newPaces().lists},
		"new logs": {createRate, createWait, newPaces().creations},
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
				_, err = took(bob, 1000*one.rate)
				require.NoError(t, err)
				waited, err = took(bob, 1)
				require.Equal(t, one.longest, waited, "the rest is owed")
				require.Equal(t, record.Busy, record.RefusalOf(err).Reason)
			})
		})
	}
}

// Whoever has used up its pace gets no list and no new log by any verb. The server itself lists, those who
// administer the cluster create, and a log that exists is found, without one.
func TestVerbsThatListAndCreateKeepThePace(t *testing.T) {
	t.Parallel()
	g := enforcing(t,
		access.Grant{Principal: "user/bob", On: access.OfCluster, Rights: access.Create | access.Observe},
		access.Grant{Principal: "user/bob", On: access.OfLog("topic"), Rights: access.Configure | access.Observe})
	bob, root := userOf(t, g, "bob"), userOf(t, g, "root")
	_, err := g.CreateLog(t.Context(), root, "orders", settings.Config{})
	require.NoError(t, err)
	_, err = g.CreateTopic(t.Context(), root, "topic", 1, settings.Config{}, nil)
	require.NoError(t, err)
	used := budget.NewRates(1, 1, time.Millisecond)
	_, err = used.Wait(t.Context(), "user/bob", 10_000) // seconds
	require.NoError(t, err)
	g.paces = paces{used, used}
	for verb, call := range map[string]func(verbs.Caller) error{
		"ListLogs": func(c verbs.Caller) error { _, err := g.ListLogs(t.Context(), c, false); return err },
		"PaceList": func(c verbs.Caller) error { return g.PaceList(t.Context(), c) },
		"CreateLog": func(c verbs.Caller) error {
			_, err := g.CreateLog(t.Context(), c, "new", settings.Config{})
			return err
		},
		"CreateTopic": func(c verbs.Caller) error {
			_, err := g.CreateTopic(t.Context(), c, "news", 2, settings.Config{}, nil)
			return err
		},
		"AddPartitions": func(c verbs.Caller) error { return g.AddPartitions(t.Context(), c, "topic", 2, nil) },
	} {
		require.Equal(t, record.Busy, record.RefusalOf(call(bob)).Reason, verb)
		c := root
		if strings.Contains(verb, "List") {
			c = verbs.Caller{System: true}
		}
		require.NoError(t, call(c), verb)
	}
	_, err = g.CreateLog(t.Context(), bob, "orders", settings.Config{})
	require.Equal(t, record.LogExists, record.RefusalOf(err).Reason)
}
