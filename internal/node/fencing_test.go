package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

func TestAFencedLogRefusesAppendsWithoutATermOnceThereIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{Fenced: true})
	mustAppend(t, n, "orders", "before there is a term")
	term, _, err := n.AcquireWriter(t.Context(), anyone, "orders")
	require.NoError(t, err)

	refused := func() {
		t.Helper()
		r := appendTo(t, n, "orders", request(t, "without a term")).Refusal
		require.NotNil(t, r)
		require.Equal(t, record.Fenced, r.Reason)
		require.Equal(t, term, r.WriterTerm)
		with := request(t, "with the term")
		with.WriterTerm = term
		require.Nil(t, appendTo(t, n, "orders", with).Refusal)
	}
	refused()
	require.NoError(t, n.Close(t.Context()))
	n = open(t, dir)
	refused()

	info, err := n.ConfigureLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	require.Empty(t, info.Problem)
	require.False(t, info.Config.Fenced)
	mustAppend(t, n, "orders", "as free as before")
	_, err = n.ConfigureLog(t.Context(), anyone, "orders", settings.Config{Fenced: true})
	require.NoError(t, err)
	refused()
}

func TestALogIsFencedWhereverItIsLed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	c.append("orders", "free")
	for _, name := range []string{"a", "b", "c"} {
		c.acquireWriter("orders")
		_, err := c.nodes[name].ConfigureLog(t.Context(), anyone, "orders", settings.Config{Fenced: true})
		require.NoError(t, err)
		requireReason(t, record.Fenced, c.asked("orders", func(leader *Node) error {
			return appendError(t, leader, "orders", request(t, "without a term"))
		}))
		_, err = c.nodes[name].ConfigureLog(t.Context(), anyone, "orders", settings.Config{})
		require.NoError(t, err)
		c.append("orders", "free again")
	}
}
