package interop

import (
	"encoding/binary"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin asks a cluster by franz-go; done ends its client.
func (c *cluster) admin() (a *kadm.Client, done func()) {
	cl := c.franz()
	return kadm.NewClient(cl), cl.Close
}

// commitByFranz commits an offset of partition 0 for a group without members.
func (c *cluster) commitByFranz(group, topic string, at int64) {
	c.Helper()
	a, done := c.admin()
	defer done()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1})
	require.NoError(c, a.CommitAllOffsets(c.Context(), group, offsets))
}

// committedByFranz is what a group has committed of partition 0, or -1.
func (c *cluster) committedByFranz(group, topic string) int64 {
	c.Helper()
	a, done := c.admin()
	defer done()
	found, err := a.FetchOffsets(c.Context(), group)
	if err != nil {
		return -1
	}
	if at, ok := found.Lookup(topic, 0); ok {
		return at.At
	}
	return -1
}

// hasByFranz reports whether partition 0 of a topic ends at count.
func (c *cluster) hasByFranz(topic string, count int) bool {
	c.Helper()
	a, done := c.admin()
	defer done()
	ends, err := a.ListEndOffsets(c.Context(), topic)
	end, ok := ends.Lookup(topic, 0)
	return err == nil && ok && end.Err == nil && end.Offset == int64(count)
}

// countsByFranz reads a topic of words and counts to its end: the newest of each.
func (c *cluster) countsByFranz(topic string) map[string]int64 {
	c.Helper()
	a, done := c.admin()
	defer done()
	ends, err := a.ListEndOffsets(c.Context(), topic)
	require.NoError(c, err)
	end, _ := ends.Lookup(topic, 0)
	counts := map[string]int64{}
	if end.Offset <= 0 {
		return counts
	}
	cl := c.franz(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	for at := int64(0); at < end.Offset; {
		fetches := cl.PollFetches(c.Context())
		require.NoError(c, fetches.Err())
		for _, r := range fetches.Records() {
			require.Len(c, r.Value, 8)
			counts[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
			at = r.Offset + 1
		}
	}
	return counts
}
