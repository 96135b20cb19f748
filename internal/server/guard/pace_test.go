package guard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

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
	used := budget.NewRates(1, 1, 0)
	_, err = used.Wait(t.Context(), "user/bob", 1)
	require.NoError(t, err)
	used.Owe("user/bob", 10_000) // seconds
	g.paces = paces{used, used}
	for verb, call := range map[string]func(verbs.Caller) error{
		"ListLogs":    func(c verbs.Caller) error { _, err := g.ListLogs(t.Context(), c, false); return err },
		"LearnTopics": func(c verbs.Caller) error { return g.LearnTopics(t.Context(), c) },
		"PaceList":    func(c verbs.Caller) error { return g.PaceList(t.Context(), c) },
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
		require.ErrorIs(t, call(bob), &record.Refusal{Reason: record.Busy}, verb)
		c := root
		if strings.Contains(verb, "List") || verb == "LearnTopics" {
			c = verbs.Caller{System: true}
		}
		require.NoError(t, call(c), verb)
	}
	g.paces = newPaces()
	_, err = g.CreateTopic(t.Context(), bob, "large", 2*createRate, settings.Config{}, nil)
	require.NoError(t, err)
	_, err = g.CreateLog(t.Context(), bob, "small", settings.Config{})
	require.True(t, record.RefusalOf(err).OwnShare, "the partitions above the pace are owed, and the refusal counts as one")
	_, err = g.CreateLog(t.Context(), bob, "orders", settings.Config{})
	require.Equal(t, record.LogExists, record.RefusalOf(err).Reason)
}
