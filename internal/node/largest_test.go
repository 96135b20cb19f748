package node

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/transport/peer"
)

// The machine may be so busy that leaders come and go while the largest entry is on its
// way, and that answers are lost. So each append names the end of the log, which it finds
// moved once an earlier try has done it; what counts is what is read in the end.
func TestTheLargestEntryReachesEveryReplica(t *testing.T) {
	t.Parallel()
	require.Less(t, record.MaxEntryBytes+1<<20, peer.MaxMessage)
	c := newCluster(t, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	patiently := func(what string, done func() bool) {
		require.Eventually(t, done, 5*time.Minute, 20*time.Millisecond, what)
	}
	appendAt := func(end record.Offset, request func() *sequence.Append) {
		patiently("an append", func() bool {
			for _, n := range c.nodes {
				a := request()
				a.ExpectedEnd = end
				r := appendTo(t, n, "orders", a).Refusal
				if r == nil || r.Reason == record.EndMismatch {
					return true
				}
			}
			return false
		})
	}
	value := bytes.Repeat([]byte{'x'}, record.MaxRecordBytes-64)
	appendAt(0, func() *sequence.Append { return request(t, "small") })
	appendAt(1, func() *sequence.Append {
		both := request(t, string(value))
		both.Batches = append(both.Batches, both.Batches[0])
		both.Records, both.Bytes, both.Atomic = 2, 2*both.Bytes, true
		return both
	})
	appendAt(3, func() *sequence.Append { return request(t, "behind") })
	for name := range c.nodes {
		var texts []string
		patiently("a read from "+name, func() bool {
			var err error
			texts, err = c.valuesNow(name, "orders", reading.Request{Consistency: reading.ConsistencyLinearizable})
			return err == nil
		})
		require.Len(t, texts, 4, name)
		require.Len(t, texts[2], len(texts[1]))
		require.Greater(t, len(texts[1]), record.MaxRecordBytes-100)
	}
}
