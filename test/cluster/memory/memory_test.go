package memory

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/resident"
)

// memoryOfNode is what the tests of memory give a node.
const memoryOfNode = 512 << 20

// allowed is what a process has in memory for so many bytes of the program: the
// race detector keeps 5 to 10 bytes besides for each.
func allowed(bytes int64) int64 {
	if cluster.RaceEnabled {
		return 10 * bytes
	}
	return bytes
}

var (
	stalledReaders = flag.Int("stalled.readers", 2000, "how many readers take nothing, 500 on a connection")
	stalledMiB     = flag.Int64("stalled.mib", 512, "the memory of their node")
)

// Two thousand readers that ask for a log and take nothing stay within the node's
// memory, keep nobody else from reading, and leave nothing behind. scripts/slow-readers
// has ten thousand do so within 1 GiB.
func TestStalledReadersStayWithinTheNodesMemory(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--memory", fmt.Sprint(*stalledMiB, "MiB")}})
	n := c.Nodes()[0]
	c.CreateLog("orders", client.LogConfig{})
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	const records, size = 1024, 64 << 10
	p, err := c.Client().Producer(ctx, "orders")
	require.NoError(t, err)
	for range records {
		_, err := p.Send(ctx, client.Record{Value: bytes.Repeat([]byte("x"), size)})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(ctx))
	n.Restart() // the log is in segments only

	readers := *stalledReaders
	connections := readers / 500
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var dialled []*grpc.ClientConn
	for range connections {
		conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticConnWindowSize(64<<20))
		require.NoError(t, err)
		dialled = append(dialled, conn)
		service := strandlinev1.NewLogServiceClient(conn)
		for range readers / connections {
			_, err = service.Read(reading, &strandlinev1.ReadRequest{Log: "orders", Format: strandlinev1.ReadFormat_READ_FORMAT_BATCHES})
			require.NoError(t, err)
		}
	}
	for range 3 {
		r, err := c.Client().Reader(ctx, "orders")
		require.NoError(t, err)
		for range records {
			_, err := r.Next(ctx)
			require.NoError(t, err, "one that keeps up is served")
		}
		require.NoError(t, r.Close())
	}
	held, most := resident.Of(t, n.PID())
	t.Logf("%d stalled readers: %d MiB, %d MiB at the most", readers, held>>20, most>>20)
	require.Less(t, most, allowed(*stalledMiB<<20))
	stop()
	for _, conn := range dialled {
		require.NoError(t, conn.Close())
	}
	requireMemoryBelow(t, n, allowed(*stalledMiB<<19))
	for _, part := range []string{"reads", "stalled reads"} {
		require.Eventually(t, func() bool { return c.Metric(n, fmt.Sprintf("strandline_memory_used_bytes{part=%q}", part)) == 0 },
			cluster.Patience, 50*time.Millisecond, "the node has noticed that all have left: %s", part)
	}
}

// requireMemoryBelow: the node gives memory back.
func requireMemoryBelow(t *testing.T, n *cluster.Node, most int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		held, _ := resident.Of(t, n.PID())
		return held < most
	}, cluster.Patience, 100*time.Millisecond, "the node gives memory back")
}

// crowd is many clients, each with connections of its own, that append at once.
type crowd struct {
	clients  []*client.Client
	troubled sync.Map // those of clients that could not continue
	sent     sync.WaitGroup
	failure  error // of the first record that failed
	failed   sync.Once
}

// gather opens a producer of each client, and leaves them idle.
func gather(t *testing.T, c *cluster.Cluster, size int) (*crowd, []*client.Producer) {
	t.Helper()
	if cluster.RaceEnabled {
		size /= 10 // it allows 8,128 goroutines
	}
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	all := &crowd{clients: make([]*client.Client, size)}
	producers := make([]*client.Producer, size)
	var opening sync.WaitGroup
	for i := range size {
		all.clients[i] = c.Client(client.WithTroubleHandler(func(_ string, err error) {
			if err != nil {
				all.troubled.Store(i, err)
			}
		}))
		opening.Go(func() {
			var err error
			producers[i], err = all.clients[i].Producer(ctx, "orders", client.WithRequestTimeout(cluster.Patience))
			all.fail(err)
		})
	}
	opening.Wait()
	require.NoError(t, all.failure)
	return all, producers
}

func (c *crowd) fail(err error) {
	if err != nil {
		c.failed.Do(func() { c.failure = err })
	}
}

// append has each producer send so many records of 32 KiB, without waiting for answers.
func (c *crowd) append(t *testing.T, producers []*client.Producer, records int) {
	t.Helper()
	value := bytes.Repeat([]byte("x"), 32<<10)
	for _, p := range producers {
		for range records {
			c.sent.Add(1)
			err := p.SendFunc(t.Context(), client.Record{Value: value}, func(_ int64, err error) {
				c.fail(err)
				c.sent.Done()
			})
			require.NoError(t, err)
		}
	}
}

// leave closes all producers and clients.
func (c *crowd) leave(t *testing.T, producers []*client.Producer) {
	t.Helper()
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	var leaving sync.WaitGroup
	for i, p := range producers {
		leaving.Go(func() {
			c.fail(p.Close(ctx))
			c.fail(c.clients[i].Close())
		})
	}
	leaving.Wait()
	require.NoError(t, c.failure)
}

func requireMemoryWithin(t *testing.T, bytes int64, nodes ...*cluster.Node) {
	t.Helper()
	for _, n := range nodes {
		held, most := resident.Of(t, n.PID())
		t.Logf("node %s: %d MiB, %d MiB at the most", n.Name(), held>>20, most>>20)
		require.Less(t, most, allowed(bytes), "node %s", n.Name())
	}
}

// A thousand clients that append at once, each on connections of its own, stay within
// the node's memory and leave nothing behind.
func TestAThousandClientsThatAppendStayWithinTheNodesMemory(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--memory", "512MiB"}})
	n := c.Nodes()[0]
	c.CreateLog("orders", client.LogConfig{})
	began := time.Now()
	all, producers := gather(t, c, 1000)
	held, _ := resident.Of(t, n.PID())
	t.Logf("%v: %d idle producers: %d MiB", time.Since(began), len(producers), held>>20)
	all.append(t, producers, 20)
	all.sent.Wait()
	t.Logf("%v: all is appended", time.Since(began))
	requireMemoryWithin(t, memoryOfNode, n)
	all.leave(t, producers)
	t.Logf("%v: all have left", time.Since(began))
	requireMemoryBelow(t, n, allowed(memoryOfNode/2))
	require.Eventually(t, func() bool {
		return c.Metric(n, `strandline_memory_used_bytes{part="appends"}`) == 0 && c.Metric(n, `strandline_memory_used_bytes{part="inflow"}`) == 0
	}, cluster.Patience, 50*time.Millisecond, "the node has noticed that all have left")
	t.Logf("%v: memory is given back", time.Since(began))
}

// A thousand clients that append to a log whose majority is gone stay within the memory
// of the node that is left, and all that they sent is appended when the others are back.
func TestAThousandClientsThatWaitForAMajorityStayWithinTheNodesMemory(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Nodes: 3, Direct: true, Flags: []string{"--memory", "512MiB"}})
	c.CreateLog("orders", client.LogConfig{})
	left := c.Node(c.AwaitLeader("orders"))
	began := time.Now()
	all, producers := gather(t, c, 1000)
	var gone []*cluster.Node
	for _, n := range c.Nodes() {
		if n != left {
			n.Kill()
			gone = append(gone, n)
		}
	}
	all.append(t, producers, 8)
	require.Eventually(t, func() bool {
		troubled := 0
		all.troubled.Range(func(any, any) bool { troubled++; return true })
		return troubled == len(producers)
	}, cluster.Patience, 50*time.Millisecond, "every client has learned that it has to wait")
	t.Logf("%v: all wait", time.Since(began))
	requireMemoryWithin(t, memoryOfNode, left)
	c.StartTogether(gone...)
	all.sent.Wait()
	t.Logf("%v: all is appended", time.Since(began))
	all.leave(t, producers)
	requireMemoryWithin(t, memoryOfNode, c.Nodes()...)
	requireMemoryBelow(t, left, allowed(memoryOfNode/2))
	t.Logf("%v: memory is given back", time.Since(began))
}
