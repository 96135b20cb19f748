package embed_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func open(t testing.TB, directory string, opts ...embed.Option) *embed.Cluster {
	t.Helper()
	c, err := embed.Open(t.Context(), directory, opts...)
	require.NoError(t, err)
	return c
}

func clientOf(t testing.TB, cluster *embed.Cluster) *client.Client {
	t.Helper()
	c, err := cluster.Client(client.WithRetryTime(time.Minute))
	require.NoError(t, err)
	return c
}

// appendTo appends a record and returns its offset.
func appendTo(t testing.TB, c *client.Client, log, value string) int64 {
	t.Helper()
	p, err := c.Producer(t.Context(), log)
	require.NoError(t, err)
	offset, err := p.Append(t.Context(), []byte(value))
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	return offset
}

func TestWhatWasAppendedIsThereWhenTheDirectoryIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			directory := t.TempDir()
			for round := range 3 {
				cluster := open(t, directory, embed.WithNodes(nodes))
				c := clientOf(t, cluster)
				if round == 0 {
					_, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
					require.NoError(t, err)
				}
				require.EqualValues(t, round, appendTo(t, c, "orders", "a record"))
				status, err := c.Admin().ClusterStatus(t.Context())
				require.NoError(t, err)
				require.Len(t, status.Nodes, nodes)
				require.NoError(t, c.Close())
				require.NoError(t, cluster.Close())
			}
		})
	}
}

func TestThreeNodesHoldEveryRecord(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(3))
	c := clientOf(t, cluster)
	info, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	require.Equal(t, 3, info.Config.Replicas)
	appendTo(t, c, "orders", "a record")
	for range cluster.Nodes() {
		r, err := c.Reader(t.Context(), "orders", client.WithMaxRecords(1), client.WithPreferFollower())
		require.NoError(t, err)
		record, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a record", string(record.Value))
		require.NoError(t, r.Close())
	}
	require.NoError(t, c.Close())
	require.NoError(t, cluster.Close())
}

// descriptors counts the files that this process holds open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd") // Linux, the BSDs and macOS have it
	require.NoError(t, err)
	return len(entries)
}

func TestCloseLeavesNoOpenFileAndNothingOfTheProcessIsChanged(t *testing.T) {
	directory := t.TempDir()
	first := open(t, directory) // what the runtime opens once
	require.NoError(t, first.Close())
	files, goroutines, processors, logger := descriptors(t), runtime.NumGoroutine(), runtime.GOMAXPROCS(0), slog.Default()
	for range 2 {
		cluster := open(t, directory)
		require.Same(t, logger, slog.Default())
		require.Equal(t, processors, runtime.GOMAXPROCS(0))
		require.NoError(t, cluster.Close())
	}
	require.LessOrEqual(t, descriptors(t), files)
	// One that has nothing left to do is counted until it has been scheduled once more.
	for patience := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(patience); {
		runtime.Gosched()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

func TestPortsAreOpenOnlyWhereTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	cluster := open(t, t.TempDir(), embed.WithNodes(3), embed.WithGRPC("127.0.0.1:0"), embed.WithKafka("", "127.0.0.1:0"), embed.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	nodes := cluster.Nodes()
	require.NotEmpty(t, nodes[0].GRPC)
	require.Empty(t, nodes[1].GRPC)
	require.NotEmpty(t, nodes[1].Kafka)
	require.Empty(t, nodes[0].Kafka)
	outside, err := client.Dial([]string{nodes[0].GRPC})
	require.NoError(t, err)
	status, err := outside.Admin().ClusterStatus(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Nodes, 3)
	require.NoError(t, outside.Close())
	require.NoError(t, cluster.Close())
	require.Contains(t, said.String(), "node=c")
}

func TestNodesHaveTheLabelsThatTheyAreGiven(t *testing.T) {
	t.Parallel()
	cluster := open(t, t.TempDir(), embed.WithNodes(3), embed.WithLabels("dc=fra", "", "dc=syd"))
	c := clientOf(t, cluster)
	info, err := c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: 1, Rule: &client.PlacementRule{VotersIn: []string{"dc=syd"}}})
	require.NoError(t, err)
	require.Len(t, info.Replicas, 1)
	require.Equal(t, []string{"dc=syd"}, info.Replicas[0].Labels)
	require.NoError(t, c.Close())
	require.NoError(t, cluster.Close())
	_, err = embed.Open(t.Context(), t.TempDir(), embed.WithLabels("fra"))
	require.ErrorContains(t, err, "fra")
	_, err = embed.Open(t.Context(), t.TempDir(), embed.WithLabels("dc=fra", "dc=syd"))
	require.ErrorContains(t, err, "2 labels for 1 nodes")
}

func TestWhatIsChangedIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file := filepath.Join(directory, "audit.log")
	c, err := embed.Open(t.Context(), filepath.Join(directory, "nodes"), embed.WithAuditLog(file))
	require.NoError(t, err)
	admin, err := c.Client()
	require.NoError(t, err)
	_, err = admin.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)
	require.NoError(t, admin.Close())
	require.NoError(t, c.Close())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "log/orders")
	_, err = embed.Open(t.Context(), directory, embed.WithAuditLog(file, file))
	require.ErrorContains(t, err, "2 audit logs for 1 nodes")
}

func TestADirectoryKeepsItsNumberOfNodes(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	require.NoError(t, open(t, directory, embed.WithNodes(2)).Close())
	_, err := embed.Open(t.Context(), directory)
	require.ErrorContains(t, err, "has a cluster of 2 nodes")
	_, err = embed.Open(t.Context(), directory, embed.WithNodes(0))
	require.ErrorContains(t, err, "1 to 9")
	_, err = embed.Open(t.Context(), directory, embed.WithNodes(2), embed.WithHTTP("", "", "127.0.0.1:0"))
	require.ErrorContains(t, err, "3 addresses for 2 nodes")

	// A crash before the first node's directory was made.
	directory = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(directory, "b"), 0o755))
	require.NoError(t, open(t, directory).Close())
}

func TestADirectoryIsOpenOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	cluster := open(t, directory)
	_, err := embed.Open(t.Context(), directory)
	require.ErrorContains(t, err, "lock")
	require.NoError(t, cluster.Close())
}

// The bound is Open's own, for a machine that does other things, too; BenchmarkOpen has the figure.
func TestThreeNewNodesAreReadySoon(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cluster := open(t, t.TempDir(), embed.WithNodes(3))
	took := time.Since(began)
	t.Logf("three new nodes were ready after %v", took)
	require.NoError(t, cluster.Close())
	require.Less(t, took, time.Minute)
}

func BenchmarkOpen(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				directory := b.TempDir()
				cluster := open(b, directory, embed.WithNodes(nodes))
				b.StopTimer()
				require.NoError(b, cluster.Close())
				b.StartTimer()
			}
		})
	}
}
