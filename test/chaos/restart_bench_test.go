package chaos

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/disk/loopdisk"
)

var restartBytes = flag.Int64("restart.bytes", 1<<30, "how much a node holds that restarts after a power cut")

// How long a node takes from the start of its process, after a power cut, until it
// announces itself and until it acknowledges an append:
//
//	go test ./test/chaos -run - -bench Restart -benchtime 10x -restart.bytes 10737418240 -timeout 1h
func BenchmarkRestartAfterAPowerCut(b *testing.B) {
	require.NoError(b, loopdisk.Available())
	disk, err := loopdisk.New(filepath.Join(b.TempDir(), "disk"), *restartBytes+4<<30)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, disk.Close()) })
	c := cluster.Start(b, cluster.Options{Nodes: 1, Data: func(string) string { return filepath.Join(disk.Dir(), "data") }})
	c.CreateLog("orders", client.LogConfig{})
	all := c.Client()
	fill(b, all, *restartBytes)
	node := c.Nodes()[0]
	var up, serving []time.Duration
	for b.Loop() {
		// Something is under way when the power goes.
		fill(b, all, 8<<20)
		require.NoError(b, disk.Cut())
		node.Kill()
		require.NoError(b, disk.Remount())
		begun := time.Now()
		node.Start()
		up = append(up, time.Since(begun))
		p, err := all.Producer(b.Context(), "orders")
		require.NoError(b, err)
		_, err = p.Append(b.Context(), []byte("after"))
		require.NoError(b, err)
		serving = append(serving, time.Since(begun))
		require.NoError(b, p.Close(b.Context()))
	}
	b.ReportMetric(0, "ns/op") // the work around it
	b.ReportMetric(slices.Max(up).Seconds()*1000, "up-max-ms")
	slices.Sort(serving)
	b.ReportMetric(serving[len(serving)/2].Seconds()*1000, "serving-p50-ms")
	b.ReportMetric(serving[len(serving)-1].Seconds()*1000, "serving-max-ms")
}

// fill appends so many bytes that nothing can make smaller.
func fill(b *testing.B, all *client.Client, bytes int64) {
	b.Helper()
	p, err := all.Producer(b.Context(), "orders")
	require.NoError(b, err)
	value := make([]byte, 64<<10)
	random := rand.NewChaCha8([32]byte{})
	for sent := int64(0); sent < bytes; sent += int64(len(value)) {
		_, _ = random.Read(value)
		require.NoError(b, p.SendFunc(b.Context(), client.Record{Value: value}, func(_ int64, err error) {
			if err != nil {
				b.Errorf("append: %v", err)
			}
		}))
	}
	require.NoError(b, p.Close(b.Context()))
}
