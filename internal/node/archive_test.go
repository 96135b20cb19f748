package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/archive/filebucket"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

// failingBucket fails all calls, or hangs until their context ends, while it is asked to.
type failingBucket struct {
	archive.Bucket
	fails, hangs atomic.Bool
}

func (b *failingBucket) fault(ctx context.Context) error {
	if b.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if b.fails.Load() {
		return &archive.Error{Op: "put", Name: "x", Err: errors.New("the bucket does not answer")}
	}
	return nil
}

func (b *failingBucket) Get(ctx context.Context, name string, limit int64) ([]byte, string, error) {
	if err := b.fault(ctx); err != nil {
		return nil, "", err
	}
	return b.Bucket.Get(ctx, name, limit)
}

func (b *failingBucket) Put(ctx context.Context, name string, data []byte, version string) (string, error) {
	if err := b.fault(ctx); err != nil {
		return "", err
	}
	return b.Bucket.Put(ctx, name, data, version)
}

func newFailingBucket(t *testing.T) *failingBucket {
	return &failingBucket{Bucket: filebucket.New(vfs.OS(), t.TempDir())}
}

// A bucket whose versions of a put and of a get differ.
type fickleBucket struct {
	archive.Bucket
	manifests atomic.Int64
}

func (b *fickleBucket) Put(ctx context.Context, name string, data []byte, version string) (string, error) {
	if !strings.HasSuffix(name, "manifest.json") {
		return b.Bucket.Put(ctx, name, data, version)
	}
	b.manifests.Add(1)
	return "", archive.ErrChanged
}

func TestABucketThatRefusesEveryManifestIsReportedAndNotAskedWithoutPause(t *testing.T) {
	t.Parallel()
	b := &fickleBucket{Bucket: newFailingBucket(t)}
	c := newClusterWith(t, func(o *settings.Options) { o.Archive, o.ArchiveAfter = b, time.Millisecond }, "a")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "first")
	c.eventually("puts are refused", func() bool { return b.manifests.Load() >= 3 })
	require.LessOrEqual(t, b.manifests.Load(), int64(c.metrics("a")["archive_failures_total"])+3)
	c.eventually("failures are counted", func() bool { return c.metrics("a")["archive_failures_total"] >= 2 })
}

func TestTheLagOfAnArchiveIsTheAgeOfItsOldestRecordUnderAnyLeader(t *testing.T) {
	t.Parallel()
	b := newFailingBucket(t)
	c := newClusterWith(t, func(o *settings.Options) { o.Archive, o.ArchiveAfter = b, time.Hour }, "a")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "first")
	lag := func() float64 { return c.metrics("a")["archive_lag_seconds"] }
	c.eventually("the record waits", func() bool { return lag() >= 5 })
	c.stop("a")
	c.start("a", nil)
	now := 0.0
	c.eventually("it still waits", func() bool { now = lag(); return now > 0 })
	require.GreaterOrEqual(t, now, 5.0)
}

// archivedLog waits until the archive of a log has all records below an offset.
func (c *testCluster) archivedLog(b archive.Bucket, log string, end record.Offset) (m *archive.Manifest) {
	c.t.Helper()
	c.eventually("the log is archived", func() bool {
		all, err := archive.Archive{Bucket: b}.List(c.t.Context())
		for _, l := range all {
			require.NoError(c.t, l.Err)
			if l.Manifest.Log == log && l.Manifest.End() >= end {
				m = l.Manifest
				return true
			}
		}
		require.NoError(c.t, err)
		return false
	})
	return m
}

func TestAnArchiveFollowsALogOverChangesOfItsLeaderAndHasItsDigest(t *testing.T) {
	t.Parallel()
	b := newFailingBucket(t)
	c := several(t, 100, func(o *settings.Options) { o.Archive, o.ArchiveAfter = b, time.Millisecond })
	c.archivedLog(b, "orders", 100)
	end := record.Offset(100)
	for range 2 { // other leaders, one of which has restarted
		for range 5 {
			c.append("orders", "more")
		}
		c.transfer("orders", c.follower("orders"))
		end = c.append("orders", "of another leader") + 1
		c.archivedLog(b, "orders", end)
		follower := c.follower("orders")
		c.stop(follower)
		c.start(follower, nil)
		c.healthy()
	}
	m := c.archivedLog(b, "orders", end)
	require.Zero(t, m.Start())
	v, err := archive.Archive{Bucket: b}.Verify(t.Context(), m, nil)
	require.NoError(t, err)
	require.Empty(t, v.Problems)
	require.Greater(t, len(m.Objects), 2)
	d, err := c.ledDigest(m.End())
	require.NoError(t, err)
	require.Equal(t, d.Root, v.Digest)
	require.Equal(t, c.nodes["a"].ClusterID(), m.Cluster)
	require.Contains(t, string(m.Config), "disk")

	all, err := archive.Archive{Bucket: b}.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "the catalog is not archived")
}

func TestABucketThatFailsOrHangsHoldsUpNoAppendAndIsReported(t *testing.T) {
	t.Parallel()
	b := newFailingBucket(t)
	b.fails.Store(true)
	c := newClusterWith(t, func(o *settings.Options) { o.Archive, o.ArchiveAfter = b, time.Millisecond }, "a")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "first")
	failures := func() float64 { return c.metrics("a")["archive_failures_total"] }
	lag := func(unit string) float64 { return c.metrics("a")["archive_lag_"+unit] }
	c.eventually("failures are counted", func() bool { return failures() >= 2 && lag("seconds") > 0 })

	b.hangs.Store(true)
	before := time.Now()
	for range 20 {
		c.append("orders", "more")
	}
	require.Less(t, time.Since(before), time.Minute)
	require.NoError(t, c.trim("orders", 2), "nothing waits for the archive")

	// The bucket works again. What was trimmed meanwhile is named.
	c.stop("a")
	b.hangs.Store(false)
	b.fails.Store(false)
	c.start("a", nil)
	m := c.archivedLog(b, "orders", 21)
	require.EqualValues(t, 2, m.Start())
	v, err := archive.Archive{Bucket: b}.Verify(t.Context(), m, nil)
	require.NoError(t, err)
	require.Empty(t, v.Problems)
	c.eventually("nothing waits", func() bool { return lag("seconds") == 0 && lag("bytes") == 0 })
	require.Positive(t, c.metrics("a")["archived_bytes_total"])
}

func TestAnArchiveOfOtherRecordsIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	b := newFailingBucket(t)
	c := newClusterWith(t, func(o *settings.Options) { o.Archive, o.ArchiveAfter = b, time.Millisecond }, "a")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "first", "second")
	m := c.archivedLog(b, "orders", 2)

	// The archive of another history of this log.
	c.stop("a")
	names, err := b.List(t.Context(), "clusters/", "manifest.json")
	require.NoError(t, err)
	for _, name := range names {
		_, version, err := b.Get(t.Context(), name, 1<<20)
		require.NoError(t, err)
		tree, err := m.DigestTree()
		require.NoError(t, err)
		state := tree.Append(nil)
		state[len(state)-1] ^= 1
		m.Tree = state
		text, err := m.Encode()
		require.NoError(t, err)
		_, err = b.Put(t.Context(), name, text, version)
		require.NoError(t, err)
	}
	c.start("a", nil)
	c.append("orders", "third")
	c.eventually("failures are counted", func() bool {
		return c.metrics("a")["archive_failures_total"] >= 1
	})
	require.EqualValues(t, 2, c.archivedLog(b, "orders", 0).End())
}
