package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

func TestALostNodeIsReplacedByANewOne(t *testing.T) {
	c, l := underLoad(t)
	lost := c.Node(c.others(c.AwaitLeader("orders"))[0])
	lost.Kill()
	lost.Wipe()
	c.Join("d")
	c.Command("cluster", "replace-node", lost.Name(), "--with", "d")
	c.AwaitReplicas("orders", append(c.others(lost.Name()), "d")...)
	c.Forget(lost.Name())
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestALeaderCanBeReplacedWhileItLives(t *testing.T) {
	c, l := underLoad(t)
	leader := c.AwaitLeader("orders")
	c.Join("d")
	c.Command("cluster", "replace-node", leader, "--with", "d")
	c.AwaitReplicas("orders", append(c.others(leader), "d")...)
	c.Node(leader).Stop()
	c.Forget(leader)
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// The node leads the catalog, too: it hands that over, and has to move every one
// of the logs itself, as their leader.
func TestANodeThatLeadsManyLogsCanBeReplacedWhileItLives(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	old := c.AwaitLeader("_catalog")
	var logs []string
	for i := range 6 {
		logs = append(logs, fmt.Sprint("log", i))
		c.CreateLog(logs[i], client.LogConfig{})
		c.AwaitLeader(logs[i])
		ctx, cancel := withPatience()
		defer cancel()
		require.NoError(t, c.Client().Admin().TransferLeader(ctx, logs[i], old))
	}
	c.Join("d")
	c.Command("cluster", "replace-node", old, "--with", "d")
	for _, log := range logs {
		c.AwaitMoved(log, old)
	}
	c.Node(old).Stop()
	c.Forget(old)
	c.AwaitHealthy()
}

func TestANodeThatLostItsDataDoesNotFormAClusterOfItsOwn(t *testing.T) {
	c, l := underLoad(t)
	lost := c.Node(c.others(c.AwaitLeader("orders"))[0])
	lost.Kill()
	lost.Wipe()
	lost.Start()
	l.Await(200)
	_, err := lost.client.Admin().CreateLog(t.Context(), "mine", client.LogConfig{Replicas: 1})
	require.ErrorIs(t, err, client.ErrNotMember)
	l.Stop()
}

// The follower is away for longer than the leader's memory reaches back.
func TestAFollowerFarBehindCatchesUpWhileTheLogTakesAppends(t *testing.T) {
	c, l, behind := farBehind(t)
	behind.Start()
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// The follower is away while the log fills some segments and is trimmed, so
// that what it needs is no longer there: it is given a start instead.
func TestAFollowerThatMissedWhatWasTrimmedCatchesUp(t *testing.T) {
	c, l, behind := farBehind(t)
	ctx, cancel := withPatience()
	defer cancel()
	admin := c.Client().Admin()
	info, err := admin.Info(ctx, "orders")
	require.NoError(t, err)
	_, _, err = admin.Trim(ctx, "orders", info.End-10, false)
	require.NoError(t, err)
	behind.Start()
	l.Await(200)
	c.AwaitHealthy()
	start, _ := l.Verify()
	require.Equal(t, info.End-10, start)
	require.Zero(t, l.Stop().FailedCalls())
}

// farBehind is a follower that was killed before the log got three segments of
// records, and more come.
func farBehind(t *testing.T) (*Cluster, *Load, *Node) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	c.CreateLog("orders", client.LogConfig{})
	behind := c.Node(c.others(c.AwaitLeader("orders"))[0])
	l := c.Load(LoadOptions{Log: "orders", ValueBytes: 64 << 10, Rate: 250})
	l.Await(100)
	behind.Kill()
	l.Await(3 * 64 << 20 / (64 << 10))
	return c, l, behind
}
