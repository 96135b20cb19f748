package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// Each of these is a story of a cluster of three under load. At the end of each
// every acknowledged record is read back from every node (Load.Verify).

// underLoad is three nodes with a log that all hold, and writers at work.
func underLoad(t *testing.T) (*Cluster, *Load) {
	t.Helper()
	return underLoadOf(t, client.Disk)
}

func underLoadOf(t *testing.T, durability client.Durability) (*Cluster, *Load) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	c.CreateLog("orders", client.LogConfig{Durability: durability})
	l := c.Load(LoadOptions{Log: "orders"})
	l.Await(200)
	return c, l
}

// healthyAgain ends a story.
func healthyAgain(c *Cluster, l *Load) {
	c.t.Helper()
	l.Await(200)
	c.AwaitHealthy()
	l.Verify()
}

func TestALeaderKilledUnderLoadLosesNothing(t *testing.T) {
	c, l := underLoad(t)
	for range 3 {
		leader := c.AwaitLeader("orders")
		l.BeginGap()
		c.Node(leader).Kill()
		c.AwaitLeader("orders", leader)
		l.Await(200)
		t.Logf("leader %s killed: %s without acks", leader, l.Gap().Round(time.Millisecond))
		c.Node(leader).Restart()
		c.AwaitHealthy()
	}
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls(), "sessions settle what a leader took with it")
}

func TestAFollowerKilledIsNotMissedAndCatchesUp(t *testing.T) {
	c, l := underLoad(t)
	follower := c.Node(c.others(c.AwaitLeader("orders"))[0])
	l.BeginGap()
	follower.Kill()
	l.Await(500)
	t.Logf("%s without acks", l.Gap().Round(time.Millisecond))
	follower.Restart()
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestAllKilledAtOnceComeBackWithEverything(t *testing.T) {
	c, l := underLoad(t)
	for range 2 {
		for _, n := range c.Nodes() {
			n.Kill()
		}
		for _, n := range c.Nodes() {
			n.Start()
		}
		l.Await(100)
	}
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestAPausedLeaderIsReplacedAndComesBackAsAFollower(t *testing.T) {
	c, l := underLoad(t)
	leader := c.AwaitLeader("orders")
	l.BeginGap()
	c.Node(leader).Pause()
	c.AwaitLeader("orders", leader)
	l.Await(200)
	t.Logf("leader %s paused: %s without acks", leader, l.Gap().Round(time.Millisecond))
	c.Node(leader).Continue()
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// In one direction the followers still hear the leader, and must not wait for it for
// ever; in the other it hears them.
func TestALeaderThatIsCutOffIsReplaced(t *testing.T) {
	for name, cut := range map[string]func(c *Cluster, leader, follower string){
		"both ways":       func(c *Cluster, leader, follower string) { c.Partition(leader, follower) },
		"hears nobody":    func(c *Cluster, leader, follower string) { c.PartitionOneWay(follower, leader) },
		"nobody hears it": func(c *Cluster, leader, follower string) { c.PartitionOneWay(leader, follower) },
	} {
		t.Run(name, func(t *testing.T) {
			c, l := underLoad(t)
			leader := c.AwaitLeader("orders")
			for _, follower := range c.others(leader) {
				cut(c, leader, follower)
			}
			c.AwaitLeader("orders", leader)
			l.Await(200)
			c.Heal()
			healthyAgain(c, l)
		})
	}
}

// A follower that receives nothing must not depose a leader that the others can hear.
func TestAFollowerThatHearsNothingUnseatsNobody(t *testing.T) {
	c, l := underLoad(t)
	deaf := c.others(c.AwaitLeader("orders"))[0]
	for _, n := range c.Nodes() {
		if n.Name() != deaf {
			c.PartitionOneWay(n.Name(), deaf)
		}
	}
	c.awaitQuiet("a term that lasts", func() bool {
		term := termOf(t, c, "orders")
		l.Await(4 * 500 * 4) // many election timeouts long
		return term == termOf(t, c, "orders")
	})
	c.Heal()
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestAFlappingLinkLosesNothing(t *testing.T) {
	c, l := underLoad(t)
	leader := c.AwaitLeader("orders")
	stop := c.Flap(leader, c.others(leader)[0], 300*time.Millisecond)
	l.Await(3000)
	stop()
	healthyAgain(c, l)
}

// A memory log loses nothing as long as a majority keeps its memory, which a rolling
// restart sees to: each new replica votes before the next node stops.
func TestARollingRestartLosesAndFailsNothing(t *testing.T) {
	for _, durability := range []client.Durability{client.Disk, client.Memory} {
		t.Run(durability.String(), func(t *testing.T) {
			c, l := underLoadOf(t, durability)
			for _, n := range c.Nodes() {
				l.BeginGap()
				n.Stop()
				l.Await(100)
				n.Start()
				c.AwaitHealthy()
				l.Await(200)
				t.Logf("node %s restarted: %s without acks", n.Name(), l.Gap().Round(time.Millisecond))
			}
			healthyAgain(c, l)
			require.Zero(t, l.Stop().FailedCalls())
		})
	}
}

// A stop may come at any moment of a start.
func TestANodeStoppedAsSoonAsItServesExitsZero(t *testing.T) {
	c, l := underLoad(t)
	for range 3 {
		for _, n := range c.Nodes() {
			n.Restart()
			n.Restart()
		}
	}
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

func TestLeadershipGoesWhereAnOperatorWantsIt(t *testing.T) {
	c, l := underLoad(t)
	for range 3 {
		c.awaitQuiet("a leader that stays where it was brought", func() bool { // an election can come between
			to := c.others(c.AwaitLeader("orders"))[0]
			before := c.termsOf()["orders"]
			l.BeginGap()
			c.Command("cluster", "transfer-leader", "orders", "--to", to)
			leader := c.AwaitLeader("orders")
			if leader != to {
				require.Greater(t, c.termsOf()["orders"], before+1, "the transfer is one term, the election another")
			}
			l.Await(100)
			t.Logf("leadership to %s: %s without acks, then %s led", to, l.Gap().Round(time.Millisecond), leader)
			return leader == to
		})
	}
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// The far follower gets everything, and nobody waits for it.
func TestAFollowerFarAwayKeepsUp(t *testing.T) {
	c, l := underLoad(t)
	leader := c.AwaitLeader("orders")
	far := c.others(leader)[0]
	for _, n := range c.Nodes() {
		if n.Name() != far {
			c.Delay(n.Name(), far, 70*time.Millisecond)
		}
	}
	l.Await(2000)
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// A schedule of faults under one seed, each of which may begin before the last one
// has ended. At most one node is down or cut off at a time.
func TestManyFaultsOneAfterTheOtherLoseNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c, l := underLoad(t)
	for range 8 {
		victim := c.Nodes()[random.IntN(3)]
		other := c.others(victim.Name())[random.IntN(2)]
		switch random.IntN(6) {
		case 0:
			victim.Kill()
			l.Await(random.Int64N(200))
			victim.Start()
		case 1:
			victim.Pause()
			l.Await(random.Int64N(200))
			victim.Continue()
		case 2:
			c.Isolate(victim.Name())
			l.Await(random.Int64N(200))
			c.Heal()
		case 3:
			c.PartitionOneWay(victim.Name(), other)
			l.Await(random.Int64N(200))
			c.Heal()
		case 4:
			c.Cut(victim.Name(), other)
			l.Await(random.Int64N(200))
		case 5:
			victim.Restart()
		}
	}
	healthyAgain(c, l)
}

func termOf(t *testing.T, c *Cluster, log string) uint64 {
	t.Helper()
	s, err := c.Status()
	require.NoError(t, err)
	require.NotNil(t, FindLog(&s, log))
	return FindLog(&s, log).Term
}
