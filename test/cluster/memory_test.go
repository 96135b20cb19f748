package cluster

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/resident"
)

// memoryOfNode is what the tests of memory give a node.
const memoryOfNode = 512 << 20

// allowed is what a process has in memory for so many bytes of the program: the
// race detector keeps 5 to 10 bytes besides for each.
func allowed(bytes int64) int64 {
	if raceEnabled {
		return 10 * bytes
	}
	return bytes
}

// Two thousand readers that ask for a log and take nothing stay within the node's
// memory, keep nobody else from reading, and leave nothing behind.
func TestStalledReadersStayWithinTheNodesMemory(t *testing.T) {
	c := Start(t, Options{Nodes: 1, Flags: []string{"--memory", "512MiB"}})
	n := c.Nodes()[0]
	c.CreateLog("orders", client.LogConfig{})
	ctx, cancel := withPatience()
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

	const readers, connections = 2000, 4
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
	require.Less(t, most, allowed(memoryOfNode))
	stop()
	for _, conn := range dialled {
		require.NoError(t, conn.Close())
	}
	requireMemoryBelow(t, n, allowed(memoryOfNode/2))
	require.Zero(t, n.metric(`strandline_memory_used_bytes{part="reads"}`))
}

// requireMemoryBelow: the node gives memory back within a minute.
func requireMemoryBelow(t *testing.T, n *Node, most int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		held, _ := resident.Of(t, n.PID())
		return held < most
	}, time.Minute, 100*time.Millisecond, "the node gives memory back")
}
