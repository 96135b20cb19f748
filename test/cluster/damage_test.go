package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

var (
	places     = flag.Int("places", 8, "how many places TestDamageOnAMinorityIsRepairedByItself damages")
	placesLogs = flag.Int("places.logs", 3, "how many logs it has; one restart damages all of them, and the catalog")
	placesSeed = flag.Uint64("places.seed", 0, "its seed; 0: a random one")
)

// damaging makes logs of many small segments, which are scrubbed without end.
var damaging = []string{"--segment-size", "128KiB", "--scrub-every", "500ms", "--scrub-rate", "64MiB"}

// A flipped bit, a stale or a missing file, at random places of every log that a
// node holds, while the others continue under load. Any number of places:
//
//	go test ./test/cluster -run TestDamageOnAMinority -v -places=300 -places.logs=24 -timeout 0
func TestDamageOnAMinorityIsRepairedByItself(t *testing.T) {
	t.Parallel()
	seed := *placesSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat it: -places=%d -places.logs=%d -places.seed=%d", *places, *placesLogs, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := Start(t, Options{Nodes: 3, Flags: damaging})
	var loads []*Load
	for i := range *placesLogs {
		name := fmt.Sprintf("log-%d", i)
		c.CreateLog(name, client.LogConfig{})
		loads = append(loads, c.Load(LoadOptions{Log: name, Writers: 1, ValueBytes: 4 << 10, Rate: max(240 / *placesLogs, 10)}))
	}
	awaitAll(loads, 100)
	for _, n := range c.Nodes() {
		n.Stop()
		n.KeepCopy()
		n.Start()
	}
	c.AwaitHealthy()
	kinds := []Damage{FlippedBit, StaleFile, MissingFile}
	for done := 0; done < *places; {
		awaitAll(loads, 30)
		n := c.Nodes()[random.IntN(3)]
		if random.IntN(2) == 0 {
			n.Kill()
		} else {
			n.Stop()
		}
		replicas := n.Replicas()
		random.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
		var what []string
		for _, replica := range replicas[:min(len(replicas), *places-done)] {
			what = append(what, n.Damage(replica, kinds[random.IntN(len(kinds))], random))
			done++
		}
		c.trimSome(loads)
		began := time.Now()
		n.Start()
		c.AwaitHealthy()
		t.Logf("node %s healthy after %s:\n\t%s", n.Name(), time.Since(began).Round(time.Millisecond), strings.Join(what, "\n\t"))
	}
	awaitAll(loads, 30)
	c.awaitScrubbed()
	c.AwaitHealthy()
	for _, l := range loads {
		l.Verify()
	}
	left := 0
	for _, n := range c.Nodes() {
		n.Stop()
		for _, replica := range n.Replicas() {
			report, err := repair.Survey(t.Context(), vfs.OS(), replica, store.Options{}, nil)
			require.NoError(t, err)
			for _, d := range report.Damage {
				// Nobody needs what lies between the entries of a segment that is
				// full: marks, and an index that can be rebuilt.
				require.Zero(t, d.First, "%s: %+v", replica, d)
				left++
			}
		}
	}
	t.Logf("%d places damaged; %d damaged marks or indexes are left; %d entries compared", *places, left, c.RequireSameReplicas())
}

// Each record is whole somewhere, and no node is whole.
func TestDamageAtDifferentPlacesOnAllNodesIsRepaired(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	c := Start(t, Options{Nodes: 3, Flags: damaging})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(LoadOptions{Log: "orders", Writers: 1, ValueBytes: 4 << 10})
	l.Await(200)
	c.AwaitHealthy()
	for _, n := range c.Nodes() {
		n.Kill()
	}
	for i, n := range c.Nodes() {
		for number := range 10 {
			n.FlipValue(n.replicaOfLog(1), 50*i+number, random) // an entry holds 16 of them at the most
		}
	}
	for _, n := range c.Nodes() {
		n.Start()
	}
	healthyAgain(c, l)
	c.awaitRepaired(c.Nodes()...)
	l.Verify()
}

// A follower and the leader rot while they run, one after the other, where
// nobody reads. That the leader leads on meanwhile is shown in internal/node, see
// TestARunningLeaderThatReadsDamageLeadsOnAndIsRepaired.
func TestAScrubFindsWhatRotsOnARunningFollowerAndLeader(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	c := Start(t, Options{Nodes: 3, Flags: damaging})
	c.CreateLog("orders", client.LogConfig{})
	l := c.Load(LoadOptions{Log: "orders", Writers: 1, ValueBytes: 4 << 10})
	l.Await(200)
	leader := c.AwaitLeader("orders")
	for i, name := range []string{c.others(leader)[0], leader} {
		n := c.Node(name)
		n.FlipValue(n.replicaOfLog(1), 10+i, random)
		c.awaitRepaired(n)
		c.AwaitHealthy()
	}
	healthyAgain(c, l)
	require.Zero(t, l.Stop().FailedCalls())
}

// replicaOfLog is the directory of the only replica of a log.
func (n *Node) replicaOfLog(id int) string {
	n.cluster.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(n.data, "logs", strconv.Itoa(id), "*"))
	require.NoError(n.cluster.t, err)
	require.Len(n.cluster.t, dirs, 1)
	return dirs[0]
}

// awaitRepaired waits until log 1 was repaired on nodes.
func (c *Cluster) awaitRepaired(nodes ...*Node) {
	c.t.Helper()
	for _, n := range nodes {
		require.Eventually(c.t.(*testing.T), func() bool {
			aside, err := filepath.Glob(filepath.Join(n.data, "logs", "1", "*", "*.bad"))
			return err == nil && len(aside) > 0
		}, Patience, 20*time.Millisecond, "node %s repairs its log", n.name)
	}
}

// awaitAll waits until each load has so many more acks.
func awaitAll(loads []*Load, more int64) {
	goals := make([]int64, len(loads))
	for i, l := range loads {
		goals[i] = l.Acked() + more
	}
	for i, l := range loads {
		l.Await(max(goals[i]-l.Acked(), 0))
	}
}

// trimSome trims every other log, so that segments are given back and used
// again.
func (c *Cluster) trimSome(loads []*Load) {
	c.t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	admin := c.Client().Admin()
	for i := 0; i < len(loads); i += 2 {
		info, err := admin.Info(ctx, loads[i].options.Log)
		require.NoError(c.t, err)
		if info.End-info.Start > 200 {
			_, _, err = admin.Trim(ctx, loads[i].options.Log, info.End-150, false)
			require.NoError(c.t, err)
		}
	}
}

// awaitScrubbed waits until every node has read all that it stores once more.
func (c *Cluster) awaitScrubbed() {
	c.t.Helper()
	for _, n := range c.nodes {
		before := c.Metric(n, "strandline_scrubs_total")
		require.Eventually(c.t.(*testing.T), func() bool { return c.Metric(n, "strandline_scrubs_total") >= before+2 }, Patience, 20*time.Millisecond)
	}
}
