package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/sequence"
)

// memoryOfTests is what the tests of memory give a node.
const memoryOfTests = 512 << 20

// openWithin opens a node in a process that works as "serve --memory 512MiB" does,
// and watches what the process holds until the test calls highest.
func openWithin(t *testing.T) (n *Node, highest func() int64) {
	t.Helper()
	before := budget.Limit(memoryOfTests)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { budget.Release(ctx, memoryOfTests) })
	var most int64
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			most = max(most, budget.Held())
			pause(watching, 10*time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		cancel()
		watch.Wait()
		running.Wait()
		debug.SetMemoryLimit(before)
	})
	n, err := Open(Options{FormAlone: true, DataDir: t.TempDir(), Memory: memoryOfTests, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return n, func() int64 {
		stop()
		watch.Wait()
		return most
	}
}

// requireReleased: within a minute the process holds little, and the node nothing.
func requireReleased(t *testing.T, n *Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, u := range n.memory.Use() {
			if u.Used > 0 {
				return false
			}
		}
		return budget.Held() < memoryOfTests/2
	}, time.Minute, 100*time.Millisecond, "held: %d MiB, %+v", budget.Held()>>20, n.memory.Use())
}

// A thousand logs that are appended to all at once stay within the node's memory,
// and give it back when they fall idle.
func TestAThousandBusyLogsStayWithinTheNodesMemory(t *testing.T) {
	n, highest := openWithin(t)
	const logs, rounds, batch = 1000, 9, 64 << 10 // 560 MiB in all
	_, err := n.CreateTopic(t.Context(), anyone, "busy", logs, Config{}, nil)
	require.NoError(t, err)
	appended := request(t, strings.Repeat("x", batch))
	turns := make(chan struct{}, 256) // as the server's pool of appends does
	for round := range rounds {
		var waiting sync.WaitGroup
		for i := range int32(logs) {
			turns <- struct{}{}
			waiting.Add(1)
			n.Append(anyone, cluster.PartitionLog("busy", i), &sequence.Append{
				ExpectedEnd: sequence.NoExpectation, Batches: appended.Batches, Records: appended.Records, Bytes: appended.Bytes,
			}, func(a sequence.Answer) {
				<-turns
				if a.Refusal != nil {
					t.Error(fmt.Sprint("round ", round, ": ", a.Refusal))
				}
				waiting.Done()
			})
		}
		waiting.Wait()
	}
	require.Less(t, n.memory.Tails.Used(), n.memory.Tails.Size()*3/2)
	require.Less(t, highest(), int64(memoryOfTests))
	requireReleased(t, n)
}
