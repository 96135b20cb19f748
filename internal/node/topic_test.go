package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
)

func TestATopicComesAndGoesAsAWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	made, err := n.CreateTopic(t.Context(), anyone, "orders", 3, settings.Config{Retention: time.Hour}, nil)
	require.NoError(t, err)
	require.Len(t, made.Partitions, 3)
	for _, log := range []string{"orders", "orders/1", "orders/2"} {
		mustAppend(t, n, log, "a")
	}
	_, err = n.CreateTopic(t.Context(), anyone, "orders", 5, settings.Config{}, nil)
	requireReason(t, record.LogExists, err)
	require.NoError(t, n.AddPartitions(t.Context(), anyone, "orders", 4, nil))
	require.NoError(t, n.Close(t.Context()))

	n = open(t, dir)
	topics, err := n.Topics(t.Context(), anyone, nil)
	require.NoError(t, err)
	require.Len(t, topics, 1)
	require.Len(t, topics[0].Partitions, 4)
	for hides, want := range map[string]int{"orders": 0, "orders/3": 3, "": 4} {
		infos, err := n.ListLogs(t.Context(), anyone, false, func(log string) bool { return log != hides && (hides != "orders" || log == "") })
		require.NoError(t, err)
		require.Len(t, infos, want, "what is hidden is not described")
	}
	for i, l := range topics[0].Partitions {
		require.Equal(t, cluster.PartitionLog("orders", int32(i)), l.Name)
		require.Equal(t, time.Hour, l.Config.Retention)
	}
	for _, log := range []string{"orders", "orders/1", "orders/3"} {
		requireReason(t, record.Invalid, n.DeleteLog(t.Context(), anyone, log))
	}
	require.NoError(t, n.ConfigureTopic(t.Context(), anyone, "orders", settings.Config{Retention: time.Minute}))
	info, err := n.KnownInfo(anyone, "orders/3")
	require.NoError(t, err)
	require.Equal(t, time.Minute, info.Config.Retention)
	require.Equal(t, "orders", info.Config.Topic, "what it is part of stays")

	require.NoError(t, n.DeleteTopic(t.Context(), anyone, "orders"))
	_, err = n.Topic(t.Context(), anyone, "orders")
	requireReason(t, record.LogNotFound, err)
	infos, err := n.ListLogs(t.Context(), anyone, false, nil)
	require.NoError(t, err)
	require.Empty(t, infos)
}

func TestALogIsATopicWithOnePartitionAndCanGetMore(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	topic, err := n.Topic(t.Context(), anyone, "orders")
	require.NoError(t, err)
	require.Len(t, topic.Partitions, 1)
	require.NoError(t, n.AddPartitions(t.Context(), anyone, "orders", 2, nil))
	mustAppend(t, n, "orders/1", "a")
	_, err = n.Topic(t.Context(), anyone, "orders/1")
	requireReason(t, record.LogNotFound, err)
}

func TestOnlyTheSystemChangesItsOwnLogsAndNobodyTheCatalog(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	system := verbs.Caller{System: true}
	_, err := n.CreateLog(t.Context(), anyone, "_strandline-own", settings.Config{})
	requireReason(t, record.Invalid, err)
	_, err = n.CreateLog(t.Context(), system, "_strandline-own", settings.Config{})
	require.NoError(t, err)
	require.Equal(t, record.Invalid, appendTo(t, n, "_strandline-own", request(t, "a")).Refusal.Reason)
	done := make(chan *record.Refusal, 1)
	for log, want := range map[string]bool{"_strandline-own": true, cluster.CatalogName: false} {
		n.Append(system, log, request(t, "a"), nil, func(a sequence.Answer) { done <- a.Refusal })
		require.Equal(t, want, <-done == nil, log)
	}
	_, _, err = n.Trim(t.Context(), anyone, "_strandline-own", 1, false)
	requireReason(t, record.Invalid, err)
	_, _, err = n.Trim(t.Context(), system, "_strandline-own", 1, false)
	require.NoError(t, err)
	requireReason(t, record.Invalid, n.DeleteLog(t.Context(), anyone, "_strandline-own"))
}

func TestReservedSessionsAreNeverTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := map[record.SessionID]bool{}
	for range 3 {
		n := open(t, dir)
		for range 5 {
			id, err := n.ReserveSession(t.Context(), anyone)
			require.NoError(t, err)
			require.False(t, seen[id])
			seen[id] = true
		}
		require.NoError(t, n.Close(t.Context()))
	}
}

func TestAnEarlyAnswerIsFollowedByTheLastOne(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for i := range 20 {
		written, done := make(chan sequence.Answer, 1), make(chan sequence.Answer, 1)
		n.Append(anyone, "orders", request(t, "a"), func(a sequence.Answer) { written <- a }, func(a sequence.Answer) { done <- a })
		first := <-written
		require.Nil(t, first.Refusal)
		require.EqualValues(t, i, first.First.First)
		require.Equal(t, first.First, (<-done).First)
	}
	refused := make(chan sequence.Answer, 1)
	never := func(sequence.Answer) { t.Error("a refused append is never written") }
	n.Append(anyone, "missing", request(t, "a"), never, func(a sequence.Answer) { refused <- a })
	require.NotNil(t, (<-refused).Refusal)
}

// A topic that was created without a number of replicas gets more as nodes come, the same
// for all partitions.
func TestNewPartitionsWantAsManyReplicasAsTheFirst(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	for topic, wanted := range map[string]int{"any": 0, "one": 1} {
		_, err := n.CreateTopic(t.Context(), anyone, topic, 1, settings.Config{Replicas: wanted}, nil)
		require.NoError(t, err)
		require.NoError(t, n.AddPartitions(t.Context(), anyone, topic, 2, nil))
		for p := range int32(2) {
			require.Equal(t, wanted, n.catalog.Load().Shown.Load().Logs[cluster.PartitionLog(topic, p)].Config.Replicas, "%s/%d", topic, p)
		}
	}
}

func TestATrimIsAnsweredOnceItsNodeShowsIt(t *testing.T) {
	t.Parallel()
	disks := map[string]*syncdisk.Disk{}
	c := newClusterWith(t, func(o *settings.Options) {
		disks[o.Name] = &syncdisk.Disk{FS: vfs.OS()}
		o.Disk = disks[o.Name]
	}, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	for range 3 {
		c.append("orders", "v")
	}
	start := func(name string) record.Offset {
		h, refusal := c.nodes[name].finder.LogFor(anyone, "orders")
		if refusal != nil {
			return 0
		}
		at, _, err := h.Replica.Tail().Bounds()
		require.NoError(t, err)
		return at
	}

	for round := range reigns {
		to := record.Offset(2 + round)
		leader, lasts := c.reign("orders")
		// The followers' disks are a majority: the trim is decided without the
		// leader's own.
		release := disks[leader].Hold()
		answered, shown := make(chan error, 1), make(chan record.Offset, 1)
		go func() {
			_, _, err := c.nodes[leader].Trim(t.Context(), anyone, "orders", to, false)
			answered <- err
			shown <- start(leader)
		}()
		c.eventually("the followers trim", func() bool { return !lasts() || start(c.follower("orders")) == to })
		release()
		err, at := <-answered, <-shown
		if retryable(err) && !lasts() {
			c.append("orders", "v")
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, to, at)
		return
	}
	t.Error("leaders come and go")
}
