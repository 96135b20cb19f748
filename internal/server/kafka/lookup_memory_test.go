package kafkaserver

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/readers"
	"strandline.dev/internal/server/kafka/topics"
)

// Lookups of offsets by time, and of the latest one, read and inflate within the node's memory for reads: they wait
// for that of a chunk, and are refused where there is none to inflate a batch that may be large.
func TestOffsetsAreLookedUpWithinTheMemoryForReads(t *testing.T) {
	t.Parallel()
	d := openNew(t)
	d.create("orders", 1)
	d.appendDirectly("orders", batchOf(t, record.Gzip, strings.Repeat("x", 8<<20)))
	reads := d.node.Memory().Reads
	now := time.Now().UnixMilli()
	for _, at := range []int64{now - time.Hour.Milliseconds(), topics.TimeNewest} {
		require.True(t, reads.TryAcquire(reads.Size()))
		answered := make(chan kmsg.ListOffsetsResponseTopicPartition)
		go func() { answered <- d.listOffset("orders", at) }()
		require.Eventually(t, reads.Waiting, time.Minute, time.Millisecond)
		others := reads.Size() - 2*readers.ChunkCost
		reads.Release(reads.Size() - others)
		require.Equal(t, kerr.NotEnoughReplicas.Code, (<-answered).ErrorCode, "may be repeated")
		require.Equal(t, others, reads.Used())
		reads.Release(others)
		found := d.listOffset("orders", at)
		require.Zero(t, found.ErrorCode)
		require.Zero(t, found.Offset)
		require.Zero(t, reads.Used())
	}
}
