package node

import (
	"log/slog"
	"math"
	"path/filepath"
	"strandline.dev/internal/node/verbs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/digest"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/stopped"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/runtime"
)

// digest is the one that the replica of a node has as of an offset; below 0: its end.
func (c *testCluster) digest(name string, at record.Offset) verbs.Digest {
	c.t.Helper()
	d, err := c.nodes[name].Digest(c.t.Context(), anyone, "orders", verbs.DigestRequest{At: at, Stale: true})
	require.NoError(c.t, err)
	return d
}

// knownUpTo waits until a node knows the log up to an offset.
func (c *testCluster) knownUpTo(name string, end record.Offset) {
	c.t.Helper()
	_, err := c.values(name, "orders", reading.Request{
		From: reading.From{Kind: reading.FromOffset, Offset: end}, Consistency: reading.ConsistencyAtLeast, AtLeast: end, Until: reading.NoOffset,
	})
	require.NoError(c.t, err)
}

// ledDigest is the one that the leader has.
func (c *testCluster) ledDigest(at record.Offset) (d verbs.Digest, err error) {
	c.t.Helper()
	err = c.asked("orders", func(leader *Node) (err error) {
		d, err = leader.Digest(c.t.Context(), anyone, "orders", verbs.DigestRequest{At: at})
		return err
	})
	return d, err
}

// prove asks a node for a proof until it has heard from the leader.
func (c *testCluster) prove(name string, offset, at record.Offset) (p digest.Proof, d verbs.Digest, err error) {
	c.t.Helper()
	err = c.retried(name+" proves a record", func() (err error) {
		p, d, err = c.nodes[name].Prove(c.t.Context(), anyone, "orders", offset, verbs.DigestRequest{At: at})
		return err
	})
	return p, d, err
}

func TestADigestIsTheSameOnEveryReplica(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	const names = "abc"
	want := map[record.Offset]digest.Hash{}
	for at := record.Offset(0); at <= 100; at += 7 {
		for _, name := range names {
			c.knownUpTo(string(name), 100)
			d := c.digest(string(name), at)
			require.Equal(t, []record.Offset{at, 0, at}, []record.Offset{d.At, d.From, d.Covered})
			require.EqualValues(t, at, d.Batches)
			if known, is := want[at]; is {
				require.Equal(t, known, d.Root, "%c at %d", name, at)
			}
			want[at] = d.Root
		}
	}
	require.Len(t, want, 15)
	seen := map[digest.Hash]bool{}
	for _, root := range want {
		require.False(t, seen[root], "each record changes it")
		seen[root] = true
	}

	// A follower that gets a snapshot instead of what was trimmed, and restarts.
	follower := c.follower("orders")
	_, dir := c.replicaOf(follower, "orders")
	c.stop(follower)
	leader := c.leader("orders", follower)
	for i := 100; i < 200; i++ {
		c.append("orders", long(i, i+1)...)
	}
	require.NoError(t, c.trim("orders", 180))
	for _, n := range c.nodes { // any may lead by now
		c.eventually("the segments below are gone", func() bool { return n.logs.Named("orders").Store.StartOffset() > 110 })
	}
	c.start(follower, nil)
	c.healthy()
	_, now := c.replicaOf(follower, "orders")
	require.Equal(t, dir, now)
	c.cold(follower)
	for _, name := range names {
		c.knownUpTo(string(name), 200)
	}
	for at := record.Offset(180); at <= 200; at += 4 {
		for _, name := range names {
			require.Equal(t, c.digest(leader, at), c.digest(string(name), at), "%c at %d", name, at)
		}
	}
	_, err := c.ledDigest(179)
	requireReason(t, record.OffsetTrimmed, err)
	_, err = c.ledDigest(201)
	requireReason(t, record.OffsetBeyondEnd, err)
}

func TestARecordIsProvedToBeUnderADigest(t *testing.T) {
	t.Parallel()
	c := several(t, 130, nil)
	for _, name := range []string{c.leader("orders"), c.follower("orders")} {
		for offset := record.Offset(0); offset < 120; offset += 17 {
			for _, at := range []record.Offset{offset + 1, 120, 130} {
				p, d, err := c.prove(name, offset, at)
				require.NoError(t, err)
				require.NoError(t, p.Check(c.digest(name, at).Root))
				require.Equal(t, offset, p.Batch.BaseOffset())
				require.Equal(t, at, d.At)
				require.LessOrEqual(t, len(p.Path), 8)
				require.ErrorIs(t, p.Check(c.digest(name, offset).Root), digest.ErrUnproven, "of before the record")
			}
		}
		for _, offset := range []record.Offset{120, 131, math.MaxInt64} {
			_, _, err := c.prove(name, offset, 120)
			requireReason(t, record.Precondition, err)
		}
	}
	require.NoError(t, c.trim("orders", 50))
	leader := c.leader("orders")
	_, _, err := c.prove(leader, 49, 60)
	requireReason(t, record.OffsetTrimmed, err)
	p, _, err := c.prove(leader, 51, 60)
	require.NoError(t, err)
	require.NoError(t, p.Check(c.digest(leader, 60).Root))
}

// A follower that is cut off does not know the end: its digests count only for those who allow that.
func TestADigestIsNotOfAnEndThatNobodyConfirms(t *testing.T) {
	t.Parallel()
	c := several(t, 10, nil)
	name := c.follower("orders")
	c.knownUpTo(name, 10)
	for _, other := range []string{"a", "b", "c"} {
		if other != name {
			c.stop(other)
		}
	}
	n := c.nodes[name]
	c.eventually("it knows of no leader", func() bool { return n.logs.Named("orders").Replica.Status().Leader == 0 })
	_, err := n.Digest(t.Context(), anyone, "orders", verbs.DigestRequest{At: -1})
	requireReason(t, record.NotLeader, err)
	_, _, err = n.Prove(t.Context(), anyone, "orders", 3, verbs.DigestRequest{At: 5})
	requireReason(t, record.NotLeader, err)
	require.EqualValues(t, 10, c.digest(name, -1).End)
	p, d, err := n.Prove(t.Context(), anyone, "orders", 3, verbs.DigestRequest{At: 5, Stale: true})
	require.NoError(t, err)
	require.NoError(t, p.Check(d.Root))
}

// A record that was changed so that all checksums match is not what its digest says.
func TestAScrubFindsWhatNoChecksumShows(t *testing.T) {
	t.Parallel()
	c := several(t, 100, func(o *settings.Options) { o.ScrubRate, o.ScrubEvery = 100<<20, 20*time.Millisecond })
	more := c.coverHalf()
	for _, name := range []string{c.leader("orders"), c.follower("orders")} {
		_, dir := c.replicaOf(name, "orders")
		c.forge(dir, 10)
		c.eventually("it is repaired", func() bool { return len(kept(t, dir)) > 0 })
		c.healthy()
	}
	c.sameOn("orders", append(long(0, 100), more...))
}

// coverHalf appends until the digest covers what lies 100 KiB before the end, on all nodes.
func (c *testCluster) coverHalf() (appended []string) {
	c.t.Helper()
	for name, n := range c.nodes {
		orders := n.logs.Named("orders")
		c.eventually("the digest covers half on "+name, func() bool {
			if orders.Replica.Uncovered() < 100<<10 {
				return true
			}
			c.append("orders", "x")
			appended = append(appended, "x")
			return false
		})
	}
	return appended
}

func TestADigestIsNotComputedFromWhatWasNotAppended(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	all := 100 + record.Offset(len(c.coverHalf()))
	name := c.follower("orders")
	_, dir := c.replicaOf(name, "orders")
	before := c.digest(name, 20).Root
	c.stop(name)
	c.forge(dir, 10)
	c.start(name, nil)
	c.healthy()
	c.knownUpTo(name, all)
	_, err := c.nodes[name].Digest(t.Context(), anyone, "orders", verbs.DigestRequest{At: 20, Stale: true})
	requireReason(t, record.Corrupt, err)
	require.Equal(t, before, c.digest(c.leader("orders"), 20).Root)
}

// While no entry has its content, nothing shows that the newest batch is not what was appended.
func TestADigestIsRightOnceItsNewestBatchIsRepaired(t *testing.T) {
	t.Parallel()
	c := several(t, 40, func(o *settings.Options) { o.ScrubRate, o.ScrubEvery = 100<<20, 20*time.Millisecond })
	name := c.follower("orders")
	_, dir := c.replicaOf(name, "orders")
	c.knownUpTo(name, 40)
	c.stop(name)
	c.forge(dir, 39)
	c.start(name, nil)
	c.knownUpTo(name, 40)
	right := c.digest(c.leader("orders"), 40).Root
	require.NotEqual(t, right, c.digest(name, 40).Root)
	for i := range 40 {
		c.append("orders", long(40+i, 41+i)...)
	}
	c.eventually("it is repaired", func() bool {
		d, err := c.nodes[name].Digest(t.Context(), anyone, "orders", verbs.DigestRequest{At: 40, Stale: true})
		return err == nil && d.Root == right
	})
}

// What a stopped node has stored is what the others have, as far as it knew that to be committed.
func TestTheFilesOfAStoppedNodeHaveTheDigestsOfTheOthers(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	all := 100 + record.Offset(len(c.coverHalf()))
	name := c.follower("orders")
	_, dir := c.replicaOf(name, "orders")
	c.knownUpTo(name, all)
	c.stop(name)
	leader := c.leader("orders")
	c.append("orders", "more")
	look := func() *stopped.Log {
		l, err := stopped.OpenLog(t.Context(), filepath.Join(dir, "..", "..", ".."), "orders", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return l
	}
	l := look()
	start, end, err := l.Bounds()
	require.NoError(t, err)
	require.Zero(t, start)
	require.Positive(t, end)
	require.LessOrEqual(t, end, all)
	for at := record.Offset(0); at <= end; at += 7 {
		tree, err := l.Digest(t.Context(), at)
		require.NoError(t, err)
		require.Equal(t, c.digest(leader, at).Root, tree.Root(), "at %d", at)
	}
	r, err := l.Prove(t.Context(), 17, end, c.digest(leader, end).Root)
	require.NoError(t, err)
	require.Contains(t, string(r.Value), "<17>")
	_, err = l.Prove(t.Context(), 17, end, c.digest(leader, end-1).Root)
	require.ErrorIs(t, err, digest.ErrUnproven)
	require.NoError(t, l.Close())

	c.forge(dir, 10)
	l = look()
	_, err = l.Digest(t.Context(), 20)
	requireReason(t, record.Corrupt, err)
	require.NoError(t, l.Close())
}

func TestDigestsAndWhoSetsAHoldBeginWithTheLevelOfTheCluster(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.Levels = newer }, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", "a", "b")
	c.healthy()
	_, err = c.ledDigest(-1)
	requireReason(t, record.Precondition, err)
	require.ErrorContains(t, err, "feature level 3")
	hold := func() (principal string) {
		require.NoError(t, c.asked("orders", func(leader *Node) error {
			if _, err := leader.SetHold(t.Context(), verbs.Caller{Principal: "user/alice"}, "orders", record.Hold{Name: "a"}, reading.FromStart); err != nil {
				return err
			}
			// SetHold is answered when a majority has it, which may be before this node has applied it. Info waits for that.
			if _, err := leader.Info(t.Context(), anyone, "orders"); err != nil {
				return err
			}
			holds, err := leader.KnownHolds(anyone, "orders")
			if err != nil {
				return err
			}
			require.Len(t, holds, 1)
			principal = holds[0].Principal
			return nil
		}))
		return principal
	}
	require.Empty(t, hold(), "older replicas would stop at it")

	c.install(cluster.Understood)
	for _, name := range []string{"a", "b", "c"} {
		c.cold(name)
	}
	_, err = c.finalize("a", cluster.Understood.Max)
	require.NoError(t, err)
	c.eventually("all nodes know the level", func() bool {
		for _, n := range c.nodes {
			if n.router.FeatureLevel() < cluster.DigestLevel {
				return false
			}
		}
		return true
	})
	require.Equal(t, "user/alice", hold())
	c.append("orders", "c", "d")
	c.append("orders", "e")
	d, err := c.ledDigest(-1)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{2, 5, 5}, []record.Offset{d.From, d.Covered, d.At})
	require.EqualValues(t, 2, d.Batches)
	_, err = c.ledDigest(2)
	requireReason(t, record.Precondition, err)
	d, err = c.ledDigest(3)
	require.NoError(t, err)
	require.Equal(t, []record.Offset{2, 2, 3}, []record.Offset{d.From, d.Covered, d.At}, "an offset within a batch stands for its beginning")
}

// The digest follows the appends, whoever leads, and an answer does not wait for that.
func TestTheDigestFollowsTheAppends(t *testing.T) {
	t.Parallel()
	c := several(t, 60, nil)
	for round := range 3 {
		leader := c.leader("orders")
		for _, name := range []string{"a", "b", "c"} {
			orders := c.nodes[name].logs.Named("orders")
			c.eventually("the digest covers most", func() bool {
				c.append("orders", "x")
				return orders.Replica.Uncovered() < 16<<10
			})
			forged := func(index uint64, reason error) { t.Errorf("entry %d: %v", index, reason) }
			require.NoError(t, orders.Replica.CheckDigests(t.Context(), nil, forged))
		}
		end := c.append("orders", long(100+round, 140+round)...) + 40
		for name := range c.nodes {
			c.knownUpTo(name, end)
		}
		for _, name := range []string{"a", "b", "c"} {
			require.Equal(t, c.digest(leader, end), c.digest(name, end))
		}
		_ = c.nodes[leader].logs.Named("orders").Replica.HandOver(t.Context(), 0)
	}
}

// Segments that are trimmed go when the digest covers them, also where no append comes.
func TestTheDigestCoversWhatIsTrimmedAtTheEnd(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	for i := range 20 {
		c.append("orders", long(100+i, 101+i)...)
	}
	require.NoError(t, c.trim("orders", 120))
	for name, n := range c.nodes {
		h := n.logs.Named("orders")
		c.eventually(name+" covers all and removes segments", func() bool { return h.Replica.Uncovered() == 0 && h.Store.StartOffset() > 80 })
	}
	c.append("orders", long(0, 1)...)
	for name := range c.nodes {
		c.knownUpTo(name, 121)
		require.EqualValues(t, 121, c.digest(name, 121).Batches)
	}
}

// What is stored adds up to the snapshots behind it, also after a trim; records that do not are found.
func TestAScrubComparesRecordsWithTheDigestsInSnapshots(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.SegmentBytes = 64 << 10 }, "a")
	for _, log := range []string{"orders", "other"} {
		_, err := c.createLog("a", log, settings.Config{Replicas: 1})
		require.NoError(t, err)
		for i := range 150 {
			c.append(log, long(i+len(log), i+len(log)+1)...)
		}
	}
	orders, other := c.nodes["a"].logs.Named("orders"), c.nodes["a"].logs.Named("other")
	c.eventually("snapshots", func() bool { return len(orders.Store.Snapshots()) > 3 && len(other.Store.Snapshots()) > 3 })
	read := 0
	count := func(bytes int) error { read += bytes; return nil }
	forged := func(index uint64, reason error) { t.Errorf("entry %d: %v", index, reason) }
	require.NoError(t, orders.Replica.CheckDigests(t.Context(), count, forged))
	require.Positive(t, read)
	require.NoError(t, c.trim("orders", 40))
	require.NoError(t, orders.Replica.CheckDigests(t.Context(), count, forged))

	index := orders.Store.Snapshots()[2]
	term, _, err := orders.Store.ReadSnapshot(index)
	require.NoError(t, err)
	_, foreign, err := other.Store.ReadSnapshot(other.Store.Snapshots()[2])
	require.NoError(t, err)
	require.NoError(t, orders.Store.SaveSnapshot(index, term, foreign))
	require.ErrorIs(t, orders.Replica.CheckDigests(t.Context(), count, forged), runtime.ErrDigest)
}
