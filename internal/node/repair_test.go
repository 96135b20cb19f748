package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/faultdisk"
)

// long are records of which some fill a segment of the tests.
func long(from, until int) []string {
	var texts []string
	for i := from; i < until; i++ {
		texts = append(texts, fmt.Sprintf("<%d>%s", i, strings.Repeat("x", 2000)))
	}
	return texts
}

// severalSegments is a size of segments of which one holds nearly thirty of such records: the hundredth lies amid
// the fourth, wherever a few other entries come between them.
const severalSegments = 72 << 10

// several is a cluster of three with a log of several segments.
func several(t *testing.T, records int, adjust func(*settings.Options)) *testCluster {
	c := newClusterWith(t, func(o *settings.Options) {
		o.SegmentBytes = severalSegments
		if adjust != nil {
			adjust(o)
		}
	}, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	for i := range records {
		c.append("orders", long(i, i+1)...)
	}
	c.healthy()
	return c
}

// flip changes a bit of a record's value where a node has stored it.
func (c *testCluster) flip(dir string, number int) { c.t.Helper(); c.change(dir, number, []byte{4}) }

// forge changes a record's value so that no CRC-32C shows it: what is added is a multiple of
// its polynomial.
func (c *testCluster) forge(dir string, number int) {
	c.t.Helper()
	c.change(dir, number, []byte{0xf1, 0x76, 0xec, 0x05, 0x01})
}

func (c *testCluster) change(dir string, number int, mask []byte) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(c.t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(c.t, err)
		at := bytes.Index(data, []byte(fmt.Sprintf("<%d>xx", number)))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		require.NoError(c.t, err)
		for i := range mask {
			mask[i] ^= data[at+100+i]
		}
		_, err = f.WriteAt(mask, int64(at)+100)
		require.NoError(c.t, err)
		require.NoError(c.t, f.Close())
		return
	}
	c.t.Fatalf("record %d is not in %s", number, dir)
}

func kept(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.bad*"))
	require.NoError(t, err)
	return files
}

func TestADamagedSegmentIsRepairedFromOtherNodes(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	c.flip(dir, 97)
	c.start("c", nil)
	c.eventually("the log is served again", func() bool {
		h := c.nodes["c"].logs.Named("orders")
		return h != nil && h.Problem() == nil
	})
	after, _ := c.replicaOf("c", "orders")
	require.Equal(t, before, after, "it has forgotten nothing")
	c.healthy()
	c.sameOn("orders", long(0, 100))
	require.NotEmpty(t, kept(t, dir), "the damaged file is kept")
}

func TestDamageAtDifferentPlacesOnAllNodesIsRepaired(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	dirs := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		_, dirs[name] = c.replicaOf(name, "orders")
		c.stop(name)
	}
	c.flip(dirs["a"], 98)
	c.flip(dirs["b"], 97)
	c.flip(dirs["c"], 96)
	for _, name := range []string{"a", "b", "c"} {
		c.start(name, nil)
	}
	c.healthy()
	c.sameOn("orders", long(0, 100))
	c.append("orders", long(100, 101)...)
}

func TestDamageToEveryCopyStopsTheLogAndNamesTheRange(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	dirs := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		_, dirs[name] = c.replicaOf(name, "orders")
		c.stop(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		c.flip(dirs[name], 97)
	}
	for _, name := range []string{"a", "b", "c"} {
		c.start(name, nil)
	}
	for _, name := range []string{"a", "b", "c"} {
		c.eventually("the problem says that nobody has it", func() bool {
			info, err := c.nodes[name].KnownInfo(anyone, "orders")
			return err == nil && strings.Contains(info.Problem, "is being repaired") && strings.Contains(info.Problem, "not whole on")
		})
		info, err := c.nodes[name].KnownInfo(anyone, "orders")
		require.NoError(t, err)
		require.Regexp(t, `entries \d+ to \d+ are missing.*\.seg is corrupt at byte`, info.Problem)
		require.Len(t, info.Replicas, 3, "who holds it is known all the same")
		_, err = c.nodes[name].Read(t.Context(), anyone, "orders", reading.Request{Until: reading.NoOffset})
		requireReason(t, record.NotLeader, err)
	}
	c.eventually("the status tells it of all three", func() bool {
		status, err := c.nodes["a"].ClusterStatus(t.Context(), anyone)
		require.NoError(t, err)
		at := slices.IndexFunc(status.Logs, func(l verbs.LogStatus) bool { return l.Name == "orders" })
		return !slices.ContainsFunc(status.Logs[at].Replicas, func(r verbs.ReplicaStatus) bool { return r.State != verbs.Repairing })
	})
}

func TestARunningFollowerThatReadsDamageIsRepaired(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	follower := c.follower("orders")
	c.cold(follower)
	c.readUntilRepaired(follower, 10)
}

// A leader continues to lead while a sealed segment of its own is repaired.
func TestARunningLeaderThatReadsDamageLeadsOnAndIsRepaired(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	for led, round := false, 0; !led; round++ {
		require.Less(t, round, reigns)
		name := c.follower("orders")
		c.cold(name)
		c.transfer("orders", name)
		leader, lasts := c.reign("orders")
		h := c.nodes[name].logs.Named("orders")
		c.readUntilRepaired(name, 10+15*round)
		require.Same(t, h, c.nodes[name].logs.Named("orders"), "its replica was not closed")
		led = leader == name && lasts()
	}
	c.append("orders", long(100, 101)...)
}

// While no other node has what is damaged, the rest of the log works.
func TestALogWhoseDamageNobodyCanRepairTakesAppendsAndIsReadElsewhere(t *testing.T) {
	t.Parallel()
	c := several(t, 100, nil)
	for _, name := range []string{"a", "b", "c"} {
		c.cold(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		_, dir := c.replicaOf(name, "orders")
		c.flip(dir, 40)
	}
	leader, end := "", 100
	for led := false; !led; {
		require.Less(t, end, 100+reigns)
		var lasts func() bool
		leader, lasts = c.reign("orders")
		c.eventually("the damage is shown", func() bool {
			_, err := c.valuesNow(leader, "orders", reading.Request{})
			requireReason(t, record.NotLeader, err)
			status, err := c.nodes["a"].ClusterStatus(t.Context(), anyone)
			require.NoError(t, err)
			at := slices.IndexFunc(status.Logs, func(l verbs.LogStatus) bool { return l.Name == "orders" })
			return !lasts() || slices.ContainsFunc(status.Logs[at].Replicas, func(r verbs.ReplicaStatus) bool {
				return r.Node == leader && r.State == verbs.Leads && strings.Contains(r.Problem, "not whole on")
			})
		})
		c.append("orders", long(end, end+1)...)
		end++
		led = lasts()
	}
	texts, err := c.values(leader, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 80}})
	require.NoError(t, err)
	require.Equal(t, long(80, end), texts)
	texts, err = c.values(leader, "orders", reading.Request{MaxRecords: 20})
	require.NoError(t, err)
	require.Equal(t, long(0, 20), texts)
}

// cold restarts a node, which then has nothing of its logs in memory.
func (c *testCluster) cold(name string) {
	c.t.Helper()
	c.stop(name)
	c.start(name, nil)
	c.healthy()
}

// readUntilRepaired damages a sealed segment of a node that runs, and reads until
// that is noticed and then until it is repaired. Nothing wrong is ever given.
func (c *testCluster) readUntilRepaired(name string, number int) {
	c.t.Helper()
	_, dir := c.replicaOf(name, "orders")
	c.flip(dir, number)
	noticed, wrong, refused := false, []string(nil), error(nil)
	c.eventually("it is repaired", func() bool {
		texts, err := c.valuesNow(name, "orders", reading.Request{})
		if len(texts) > 100 || !slices.Equal(long(0, 100)[:len(texts)], texts) {
			wrong = texts
		}
		if err != nil {
			noticed, refused = true, err
		}
		return wrong != nil || noticed && err == nil
	})
	require.Empty(c.t, wrong, "what is given is right")
	var refusal *record.Refusal // NOT_LEADER, or SHUTTING_DOWN while the replica is being stopped
	require.ErrorAs(c.t, refused, &refusal)
	require.True(c.t, refusal.Reason.Retryable(), refusal)
	c.healthy()
	c.sameOn("orders", long(0, 100))
	require.NotEmpty(c.t, kept(c.t, dir))
}

func TestAScrubFindsWhatNobodyReads(t *testing.T) {
	t.Parallel()
	c := several(t, 100, func(o *settings.Options) { o.ScrubRate, o.ScrubEvery = 100<<20, 20*time.Millisecond })
	for _, name := range []string{c.leader("orders"), c.follower("orders")} {
		_, dir := c.replicaOf(name, "orders")
		c.flip(dir, 10)
		c.eventually("it is repaired", func() bool { return len(kept(t, dir)) > 0 })
		c.healthy()
	}
	c.sameOn("orders", long(0, 100))
}

func TestADamagedCatalogIsRepairedBeforeTheNodeBegins(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	before, dir := c.replicaOf("c", cluster.CatalogName)
	c.stop("c")
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	newest := slices.Max(files)
	data, err := os.ReadFile(newest)
	require.NoError(t, err)
	at := bytes.Index(data, []byte(`"orders"`))
	require.Positive(t, at)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(newest, data, 0o644))
	c.start("c", nil)
	c.eventually("c has begun", func() bool { return c.nodes["c"].catalog.Load() != nil })
	c.healthy()
	after, _ := c.replicaOf("c", cluster.CatalogName)
	require.Equal(t, before, after)
	c.sameOn("orders", numbered(0, 10))
}

// The damage lies in a segment that is full, so it shows only when the node
// reads its catalog.
func TestACatalogThatProvesDamagedWhileTheNodeBeginsIsRepaired(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, func(o *settings.Options) { o.SegmentBytes = 16 << 10 }, "a", "b", "c")
	for i := range 20 {
		_, err := c.createLog("a", fmt.Sprint("log-", i), settings.Config{})
		require.NoError(t, err)
	}
	c.healthy()
	_, dir := c.replicaOf("c", cluster.CatalogName)
	c.stop("c")
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	data, err := os.ReadFile(slices.Min(files))
	require.NoError(t, err)
	at := bytes.Index(data, []byte(`"log-0"`))
	require.Positive(t, at)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(slices.Min(files), data, 0o644))
	c.start("c", nil)
	c.eventually("the catalog is repaired", func() bool { return len(kept(t, dir)) > 0 })
	c.healthy()
	c.append("log-0", "one")
	c.sameOn("log-0", []string{"one"})
}

// What a running node has in memory of its own files outlives damage to them.
func TestAScrubRepairsTheNodesOwnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := Open(settings.Options{FormAlone: true, DataDir: dir, ScrubEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", "one")
	for _, name := range []string{"replicas.json", "node.json", "lives.json"} {
		path := filepath.Join(dir, name)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte("{}"), 0o644))
		require.Eventually(t, func() bool {
			now, err := os.ReadFile(path)
			return err == nil && bytes.Equal(now, before)
		}, time.Minute, 5*time.Millisecond, name)
	}
	require.NoError(t, n.Close(t.Context()))
}

// What is read through the page cache is sound for as long as it is cached.
func TestAScrubSeesWhatIsStoredOfTheNodesOwnFiles(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	n, err := Open(settings.Options{FormAlone: true, DataDir: "data", Disk: disk, ScrubEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	create(t, n, "orders", settings.Config{})
	for _, name := range []string{"replicas.json", "node.json", "lives.json"} {
		path := filepath.Join("data", name)
		before, err := vfs.Stored{FS: disk}.ReadFile(path)
		require.NoError(t, err)
		disk.FlipStored(path, int64(len(before))/2)
		damaged, err := vfs.Stored{FS: disk}.ReadFile(path)
		require.NoError(t, err)
		require.NotEqual(t, before, damaged)
		require.Eventually(t, func() bool {
			now, err := vfs.Stored{FS: disk}.ReadFile(path)
			return err == nil && bytes.Equal(now, before)
		}, time.Minute, 5*time.Millisecond, name)
	}
	require.NoError(t, n.Close(t.Context()))
}

// larger is a cluster of three with a log, of which some nodes have larger segments. So their
// trim does not remove a damaged one of which others have trimmed what is damaged, and they
// would wait for them for ever. Nothing is scrubbed unless the test does it.
func larger(t *testing.T, records int, names ...string) *testCluster {
	c := several(t, records, func(o *settings.Options) {
		o.ScrubRate = -1
		if slices.Contains(names, o.Name) {
			o.SegmentBytes = 256 << 10
		}
	})
	if records > 0 {
		c.stored(names...)
	}
	return c
}

// stored waits until nodes have stored 200 records, in more than one segment of which each has
// its snapshot.
func (c *testCluster) stored(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.knownUpTo(name, 200)
		c.eventually("the segments have snapshots", func() bool {
			return len(c.nodes[name].logs.Named("orders").Store.Snapshots()) >= 2
		})
	}
}

// scrub reads all that a node has stored of the log.
func (c *testCluster) scrub(name string) {
	c.t.Helper()
	h := c.nodes[name].logs.Named("orders")
	require.LessOrEqual(c.t, h.Store.StartOffset(), record.Offset(50))
	if err := h.Store.(replicas.Scrubbed).Scrub(nil, h.Found); !errors.Is(err, segment.ErrClosed) {
		require.NoError(c.t, err)
	} // else the damage was found before, by another node that asked for what it lies in
}

// recycled waits until nodes have removed what they have stored of a record.
func (c *testCluster) recycled(record record.Offset, names ...string) {
	c.t.Helper()
	c.eventually("it is recycled", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			h := c.nodes[name].logs.Named("orders")
			return h == nil || h.Problem() != nil || h.Store.StartOffset() <= record
		})
	})
}

func TestDamageThatOnlyTheOthersHaveRecycledIsSkipped(t *testing.T) {
	t.Parallel()
	c := larger(t, 200, "c")
	before, dir := c.replicaOf("c", "orders")
	c.flip(dir, 50)
	require.NoError(t, c.trim("orders", 100))
	c.recycled(60, "a", "b")
	c.scrub("c")
	c.recycled(50, "c")
	c.continues("c", before)
}

// The record at which the log starts is damaged too, so that the index of the entry cannot be
// looked up in the files of the replica.
func TestDamageThatOnlyTheOthersHaveRecycledIsSkippedWhereTheLogStartsInIt(t *testing.T) {
	t.Parallel()
	c := larger(t, 200, "c")
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	c.flip(dir, 50)
	c.flip(dir, 100)
	require.NoError(t, c.trim("orders", 100))
	c.recycled(60, "a", "b")
	c.start("c", nil) // which finds the damage when it trims
	c.recycled(50, "c")
	c.continues("c", before)
}

// A node that was down needs what is damaged on the leader, which does not have it in memory
// either. Its own log ends before.
func TestDamageThatOneOtherHasRecycledAndOneNeverHadIsSkipped(t *testing.T) {
	t.Parallel()
	c := larger(t, 0, "c")
	before, dir := c.replicaOf("c", "orders")
	c.stop("b")
	for i := range 200 {
		c.append("orders", long(i, i+1)...)
	}
	c.stored("c")
	c.stop("c")
	c.flip(dir, 50)
	c.start("c", nil)
	c.transfer("orders", "c")
	require.NoError(t, c.trim("orders", 100))
	c.recycled(60, "a")
	c.scrub("c")
	c.start("b", nil)
	c.recycled(50, "b", "c")
	c.continues("c", before)
}

func TestDamageAtOnePlaceOnTwoNodesThatTheThirdHasRecycledIsSkipped(t *testing.T) {
	t.Parallel()
	c := larger(t, 200, "b", "c")
	before := map[string]uint64{}
	for _, name := range []string{"b", "c"} {
		id, dir := c.replicaOf(name, "orders")
		before[name] = id
		c.flip(dir, 50)
	}
	require.NoError(t, c.trim("orders", 100))
	c.recycled(60, "a")
	c.scrub("b")
	c.scrub("c")
	c.recycled(50, "b", "c")
	c.continues("b", before["b"])
	c.continues("c", before["c"])
}

// continues shows that a node has kept its replica, and has the log from record 100 on.
func (c *testCluster) continues(name string, replica uint64) {
	c.t.Helper()
	c.healthy()
	after, _ := c.replicaOf(name, "orders")
	require.Equal(c.t, replica, after, "it has forgotten nothing")
	first := c.append("orders", "one more")
	c.knownUpTo(name, first+1)
	texts, err := c.values(name, "orders", reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: 100}})
	require.NoError(c.t, err)
	require.Equal(c.t, long(100, 200), texts[:100])
}

func TestAScrubReplacesTheOnlySnapshotOfALog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := settings.Options{FormAlone: true, DataDir: dir, ScrubEvery: 20 * time.Millisecond, ScrubRate: 100 << 20, Logger: slog.New(slog.DiscardHandler)}
	n, err := Open(o)
	require.NoError(t, err)
	l, err := n.CreateLog(t.Context(), anyone, "orders", settings.Config{})
	require.NoError(t, err)
	mustAppend(t, n, "orders", "one")
	inLog := func(pattern string) []string {
		names, err := filepath.Glob(filepath.Join(dir, "logs", fmt.Sprint(l.ID), "*", pattern))
		require.NoError(t, err)
		return names
	}
	snapshots := inLog("*.snap")
	require.Len(t, snapshots, 1)
	require.NoError(t, os.WriteFile(snapshots[0], []byte("rotten"), 0o644))
	require.Eventually(t, func() bool { return len(inLog("*.snap.bad")) == 1 }, time.Minute, 5*time.Millisecond)
	require.NotEqual(t, snapshots, inLog("*.snap"))
	require.NoError(t, n.Close(t.Context()))
	n, err = Open(o)
	require.NoError(t, err)
	require.Equal(t, []string{"0:one"}, read(t, n, "orders", everything))
	require.NoError(t, n.Close(t.Context()))
}

func TestDamageOfTheOnlyCopyIsAttendedToOnceOthersHoldTheLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	a := c.nodes["a"]
	_, err := a.CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 1})
	require.NoError(t, err)
	c.append("orders", "first")
	h := a.logs.Named("orders")
	damage := &segment.CorruptError{File: "newest", Detail: "found by a test"}
	h.Found(damage)
	require.True(t, h.Reported.Load())
	require.False(t, h.Leaving.Load(), "no other node can help")

	c.joined("b", "c")
	_, err = a.ConfigureLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	c.eventually("three nodes hold the log", func() bool { return c.holders("orders") == 3 })
	h.Found(damage)
	c.eventually("another replica runs in its place", func() bool {
		now := a.logs.Named("orders")
		return now != h && now.Problem() == nil
	})
	c.append("orders", "second")
}
