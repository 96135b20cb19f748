package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// Links that are encrypted break as others do, and certificates change meanwhile.
func TestAnEncryptedClusterLosesNothing(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3, Encrypted: true})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(200)

	leader := c.AwaitLeader("orders")
	c.Node(leader).Kill()
	next := c.AwaitLeader("orders", leader)
	l.Await(200)
	c.Node(leader).Restart()
	c.AwaitHealthy()

	for _, n := range c.Nodes() {
		n.Recertify()
	}
	c.Cut(next, c.others(next)[0]) // and connect again
	l.Await(200)
	c.Isolate(next)
	c.AwaitLeader("orders", next)
	l.Await(200)
	c.Heal()
	c.AwaitHealthy()

	paused := c.AwaitLeader("orders")
	c.Node(paused).Pause()
	c.AwaitLeader("orders", paused)
	l.Await(200)
	c.Node(paused).Continue()
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
	require.Contains(t, c.Command("log", "list"), "orders")
}
