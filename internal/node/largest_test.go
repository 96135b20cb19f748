package node

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
)

func TestTheLargestEntryReachesEveryReplica(t *testing.T) {
	t.Parallel()
	require.Less(t, record.MaxEntryBytes+1<<20, peer.MaxMessage)
	c := newCluster(t, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", Config{})
	require.NoError(t, err)
	c.append("orders", "small")
	value := bytes.Repeat([]byte{'x'}, record.MaxRecordBytes-64)
	c.appendOne("orders", func() *sequence.Append {
		both := request(t, string(value))
		both.Batches = append(both.Batches, both.Batches[0])
		both.Records, both.Bytes, both.Atomic = 2, 2*both.Bytes, true
		return both
	})
	c.append("orders", "behind")
	c.healthy()
	for name := range c.nodes {
		texts, err := c.values(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Len(t, texts, 4)
		require.Len(t, texts[2], len(texts[1]))
	}
}
