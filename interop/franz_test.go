package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFranz(t *testing.T) {
	onClusters(t, func(c *cluster) {
		c.prepare("franz")
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		seeds := kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...)
		for i, codec := range []kgo.CompressionCodec{
			kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
		} {
			p, err := kgo.NewClient(seeds, kgo.DefaultProduceTopic("franz"), kgo.ProducerBatchCompression(codec))
			require.NoError(c, err)
			for n := range perCodec {
				p.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%s-%d", codecs[i], n)), func(_ *kgo.Record, err error) { require.NoError(c, err) })
			}
			require.NoError(c, p.Flush(ctx))
			p.Close()
		}
		all := written + perCodec*len(codecs)
		for _, options := range [][]kgo.Opt{
			{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"franz": {0: kgo.NewOffset().At(0)}})},
			{kgo.ConsumerGroup("franz"), kgo.ConsumeTopics("franz")},
			{kgo.ConsumeTopics("franz"), kgo.Rack("n2")}, // from a follower, where there is one
		} {
			r, err := kgo.NewClient(append(options, seeds)...)
			require.NoError(c, err)
			for n := 0; n < all; {
				fetches := r.PollFetches(ctx)
				require.NoError(c, fetches.Err())
				fetches.EachRecord(func(r *kgo.Record) {
					require.EqualValues(c, n, r.Offset)
					n++
				})
			}
			r.Close()
		}
		cl, err := kgo.NewClient(seeds)
		require.NoError(c, err)
		defer cl.Close()
		a := kadm.NewClient(cl)
		found, err := a.ListOffsetsAfterMilli(ctx, time.Now().Add(-time.Hour).UnixMilli(), "franz")
		require.NoError(c, err)
		require.Zero(c, found["franz"][0].Offset)
		var to kadm.Offsets
		to.Add(kadm.Offset{Topic: "franz", Partition: 0, At: 5})
		_, err = a.DeleteRecords(ctx, to)
		require.NoError(c, err)
		starts, err := a.ListStartOffsets(ctx, "franz")
		require.NoError(c, err)
		require.EqualValues(c, 5, starts["franz"][0].Offset)
		_, err = a.CreateTopic(ctx, 3, -1, nil, "franz-more")
		require.NoError(c, err)
		topics, err := a.ListTopics(ctx)
		require.NoError(c, err)
		require.Len(c, topics["franz-more"].Partitions, 3)
		c.checkWritten("franz", codecs)
	})
}

// franz-go's own tests against a cluster, but for transactions and share groups.
func TestFranzSuite(t *testing.T) {
	onClusters(t, func(c *cluster) {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go")
		found, err := list.Output()
		require.NoError(c, err)
		dir := filepath.Join(c.TempDir(), "franz-go")
		require.NoError(c, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(found)))))
		command := exec.CommandContext(c.Context(), "go", "test", "./pkg/kgo", "-count=1", "-timeout=5m",
			"-run", "TestGroupETL|TestPing|TestProcessHooks|TestIssue1034|TestUnknownGroupOffsetFetchPinned|TestHookPollStart")
		command.Dir = dir
		command.Env = append(os.Environ(), "KGO_SEEDS="+c.bootstrap, fmt.Sprintf("KGO_TEST_RF=%d", c.nodes), "KGO_TEST_RECORDS=50000", "GOFLAGS=-mod=mod")
		out, err := command.CombinedOutput()
		require.NoError(c, err, "%s", out)
		c.Logf("%s", out)
	})
}
