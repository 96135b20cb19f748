package memory

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
)

// A thousand logs that all take appends stay within the node's memory, which each uses a
// part of for as long as it is busy and gives back when it is idle.
func TestAThousandBusyLogsStayWithinAProcessesMemory(t *testing.T) {
	t.Parallel()
	logs, records := 1000, 4 // 256 MiB: several times what tails may take
	if cluster.RaceEnabled {
		logs /= 10 // what the detector keeps for each byte would say nothing
	}
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--memory", "512MiB", "--connections-per-address", "5000"}})
	n := c.Nodes()[0]
	ctx, cancel := cluster.WithPatience()
	defer cancel()
	producers := make([]*client.Producer, logs)
	turns := make(chan struct{}, 16)
	crowd := &crowd{}
	var opening sync.WaitGroup
	for i := range producers {
		opening.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			log := fmt.Sprint("busy-", i)
			_, err := c.Client().Admin().CreateLog(ctx, log, client.LogConfig{})
			crowd.fail(err)
			producers[i], err = c.Client().Producer(ctx, log, client.WithRequestTimeout(cluster.Patience))
			crowd.fail(err)
		})
	}
	opening.Wait()
	require.NoError(t, crowd.failure)
	value := bytes.Repeat([]byte("x"), 64<<10)
	for range records {
		for _, p := range producers {
			crowd.sent.Add(1)
			require.NoError(t, p.SendFunc(ctx, client.Record{Value: value}, func(_ int64, err error) {
				crowd.fail(err)
				crowd.sent.Done()
			}))
		}
	}
	crowd.sent.Wait()
	require.NoError(t, crowd.failure)
	tails := c.Metric(n, `strandline_memory_size_bytes{part="tails"}`)
	require.Less(t, c.Metric(n, `strandline_memory_used_bytes{part="tails"}`), tails*3/2)
	requireMemoryWithin(t, memoryOfNode, n)
	for _, p := range producers {
		require.NoError(t, p.Close(ctx))
	}
	requireMemoryBelow(t, n, allowed(memoryOfNode/2))
	require.Eventually(t, func() bool {
		for _, part := range []string{"appends", "answers", "inflow", "tails"} {
			if c.Metric(n, fmt.Sprintf("strandline_memory_used_bytes{part=%q}", part)) > 0 {
				return false
			}
		}
		return true
	}, cluster.Patience, 100*time.Millisecond, "the node holds nothing for idle logs")
}
