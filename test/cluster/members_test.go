package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
		ctx, cancel := WithPatience()
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
	ctx, cancel := WithPatience()
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

// A container that has a new name and an empty disk each time it starts never
// becomes a member, so that no dead voters are left behind.
func TestANodeWithAFreshNameAtEachRestartIsRefused(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	for i := range 4 {
		n := c.addNode(fmt.Sprint("pod-", i))
		n.belongs = []string{"--join", c.nodes[0].grpc}
		n.Start()
		_, err := n.client.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
		require.ErrorIs(t, err, client.ErrNotMember)
		require.Eventually(t, func() bool { return strings.Contains(n.Log(), "is not expected in this cluster") },
			Patience, 10*time.Millisecond, "it says what it waits for")
		n.Kill()
		c.Forget(n.name)
	}
	c.AwaitReplicas("_catalog", "a", "b", "c")
	s, err := c.Status()
	require.NoError(t, err)
	require.Len(t, s.Nodes, 3)
}

func TestANodeJoinsWithAToken(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	token, err := c.Client().Admin().CreateToken(t.Context(), time.Hour, false)
	require.NoError(t, err)
	n := c.addNode("d")
	n.belongs = []string{"--join", c.nodes[0].grpc, "--join-token", token.Token}
	n.Start()
	c.AwaitHealthy()
}

func TestACatalogVoterThatIsLostForGoodIsReplaced(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3, Flags: []string{"--lost-after", "2s"}})
	c.Join("d")
	c.AwaitHealthy()
	lost := c.Node("b")
	lost.Kill()
	lost.Wipe()
	c.Await("d to vote on the catalog in the place of b", func(s *client.ClusterStatus) string {
		var voters []string
		for _, r := range FindLog(s, "_catalog").Replicas {
			if r.Role == client.Voter {
				voters = append(voters, r.Node)
			}
		}
		if slices.Sort(voters); !slices.Equal(voters, []string{"a", "c", "d"}) {
			return fmt.Sprintf("%v vote", voters)
		}
		return ""
	})
	ctx, cancel := WithPatience()
	defer cancel()
	admin := c.Client().Admin()
	_, err := admin.CreateLog(ctx, "before", client.LogConfig{Replicas: 1}) // the change of voters is done
	require.NoError(t, err)
	second := map[string]string{"a": "c", "c": "a", "d": "c"}[c.AwaitLeader("_catalog")]
	c.Node(second).Kill() // two of the three voters are left
	_, err = admin.CreateLog(ctx, "orders", client.LogConfig{Replicas: 1})
	require.NoError(t, err)
}

func TestHoweverManyFormAClusterAtOnceThereIsOne(t *testing.T) {
	t.Parallel()
	for range 6 {
		c := startWaiting(t, Options{Nodes: 3})
		formed := make([]client.Formation, 6)
		failed := make([]error, len(formed))
		var asking sync.WaitGroup
		ctx, cancel := WithPatience()
		for i := range formed {
			asking.Go(func() { formed[i], failed[i] = c.nodes[i%3].Client().Admin().InitCluster(ctx) })
		}
		asking.Wait()
		cancel()
		for i := range formed {
			require.NoError(t, failed[i], "asked of node %s", c.nodes[i%3].name)
			require.Equal(t, formed[0].ClusterID, formed[i].ClusterID)
		}
		c.AwaitHealthy()
		answers, err := c.askAll()
		require.NoError(t, err)
		for _, s := range answers {
			require.Equal(t, formed[0].ClusterID, s.ClusterID)
			require.Len(t, s.Nodes, 3)
		}
		for _, n := range slices.Backward(c.nodes) {
			n.Kill()
		}
	}
}
