package node

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// A node that was away while a log was created must not say that there is none.
func TestANodeWithAnOldCatalogDoesNotDenyALog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "first", settings.Config{})
	require.NoError(t, err)
	c.healthy()
	c.stop("c")
	_, err = c.nodes["a"].CreateLog(t.Context(), anyone, "second", settings.Config{})
	require.NoError(t, err)
	c.stop("a")
	c.stop("b")
	c.start("c", nil) // alone: it cannot learn of what happened

	for _, log := range []string{"second", "none"} {
		_, err = c.nodes["c"].Read(t.Context(), anyone, log, everything)
		requireReason(t, record.NotLeader, err)
		require.ErrorContains(t, err, "does not know a log")
		requireReason(t, record.NotLeader, appendTo(t, c.nodes["c"], log, request(t, "x")).Refusal)
		_, err = c.nodes["c"].KnownInfo(anyone, log)
		requireReason(t, record.NotLeader, err)
	}

	c.start("a", nil)
	c.eventually("c hears that there is no such log", func() bool {
		_, err := c.nodes["c"].KnownInfo(anyone, "none")
		return err != nil && errors.Is(err, &record.Refusal{Reason: record.LogNotFound})
	})
	c.eventually("c knows the log", func() bool {
		_, err := c.nodes["c"].KnownInfo(anyone, "second")
		return err == nil
	})
}

// A caller that asks for many unknown logs waits once.
func TestAQuestionAboutAMissingLogThatFailedAnswersTheNext(t *testing.T) {
	n := open(t, t.TempDir())
	c := n.catalog.Load()
	_, refusal := c.Unknown.Confirm(c, "none")
	requireReason(t, record.LogNotFound, refusal)
	now := time.Now().Add(time.Hour) // as if it went on failing
	c.Unknown.Failed.Store(&now)
	_, refusal = c.Unknown.Confirm(c, "none")
	requireReason(t, record.NotLeader, refusal)
}
