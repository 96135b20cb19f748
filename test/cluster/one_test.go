package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestANodeAloneIsAClusterOfOne(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 1})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(200)
	c.Node("a").Kill()
	c.Node("a").Start()
	l.Await(200)
	c.Node("a").Restart()
	l.Await(200)
	c.Node("a").Pause()
	c.Node("a").Continue()
	l.Await(200)
	start, end := l.Verify()
	require.Zero(t, start)
	require.EqualValues(t, l.Acked(), end)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestClustersSideBySideHaveAddressesOfTheirOwn(t *testing.T) {
	taken := map[int]bool{}
	for range 10 {
		s, err := claimSubnet()
		require.NoError(t, err)
		t.Cleanup(s.release)
		require.False(t, taken[s.number])
		taken[s.number] = true
	}
}
