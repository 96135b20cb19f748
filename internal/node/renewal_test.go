package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/vfs"
)

// replicaOf is the id of a log's replica on a node, and its directory.
func (c *testCluster) replicaOf(name, log string) (id uint64, dir string) {
	c.t.Helper()
	n := c.nodes[name]
	c.eventually(log+" is hosted on "+name, func() bool { return n.logs.Named(log) != nil })
	h := n.logs.Named(log)
	return h.ReplicaID, n.files.ReplicaDir(h.ID, h.ReplicaID)
}

// renewed waits until a node has another replica of a log than before, and all
// is well.
func (c *testCluster) renewed(name, log string, before uint64) {
	c.t.Helper()
	c.eventually("the replica has a new id", func() bool {
		h := c.nodes[name].logs.Named(log)
		return h != nil && h.ReplicaID != before && h.Problem() == nil
	})
	status := c.healthy()
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			require.False(c.t, l.Name == log && r.Replica == before, "replica %d is still there", before)
		}
	}
}

// sameOn requires that every node gives the same values.
func (c *testCluster) sameOn(log string, want []string) {
	c.t.Helper()
	for name := range c.nodes {
		var texts []string
		c.eventually(name+" reads", func() bool {
			var err error
			texts, err = c.valuesNow(name, log, reading.Request{Consistency: reading.ConsistencyLinearizable})
			return err == nil // it may not have heard of the leader yet
		})
		require.Equal(c.t, want, texts, name)
	}
}

func numbered(from, until int) []string {
	var texts []string
	for i := from; i < until; i++ {
		texts = append(texts, fmt.Sprint("record ", i))
	}
	return texts
}

func three(t *testing.T, records int) *testCluster {
	c := newCluster(t, "a", "b", "c")
	_, err := c.createLog("a", "orders", settings.Config{})
	require.NoError(t, err)
	c.append("orders", numbered(0, records)...)
	c.healthy()
	return c
}

func TestAReplicaWhoseFilesAreGoneComesBackUnderANewId(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	require.NoError(t, os.RemoveAll(dir))
	c.start("c", nil)
	c.renewed("c", "orders", before)
	c.sameOn("orders", numbered(0, 10))
	c.eventually("the list of replicas does not grow for ever", func() bool { return !c.nodes["c"].files.Created.Has(before) })
}

func TestARenewalGoesOnWhereACrashInterruptedIt(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	steps := []struct {
		name string
		then func(n *Node, log, id uint64)
	}{
		{"after it was marked", func(n *Node, log, id uint64) {
			require.NoError(t, vfs.WriteFileDurably(n.disk, filepath.Join(n.files.ReplicaDir(log, id), datadir.LostMark), []byte("a test")))
		}},
		{"after some of its files were moved", func(n *Node, log, id uint64) {
			require.NoError(t, vfs.WriteFileDurably(n.disk, filepath.Join(n.files.ReplicaDir(log, id), datadir.LostMark), []byte("a test")))
			require.NoError(t, n.disk.MkdirAll(n.files.AsideDir(log, id)))
			files, err := n.disk.List(n.files.ReplicaDir(log, id))
			require.NoError(t, err)
			name := files[0].Name
			require.NoError(t, n.disk.Rename(filepath.Join(n.files.ReplicaDir(log, id), name), filepath.Join(n.files.AsideDir(log, id), name)))
		}},
		{"after all were moved", func(n *Node, log, id uint64) { require.NoError(t, n.files.SetAside(log, id, "a test")) }},
	}
	for _, step := range steps {
		n := c.nodes["c"]
		before, dir := c.replicaOf("c", "orders")
		log := n.logs.Named("orders").ID
		files, err := n.disk.List(dir)
		require.NoError(t, err)
		c.stop("c")
		step.then(n, log, before)
		c.start("c", nil)
		c.renewed("c", "orders", before)
		kept, err := n.disk.List(n.files.AsideDir(log, before))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(kept), len(files), "the files are kept: %s", step.name)
	}
	c.sameOn("orders", numbered(0, 10))
}

// The node that renewed its replica has forgotten so when the power goes: its
// copy of the catalog names the old one, and its list of replicas does not.
func TestNothingIsMadeFromNothingByAnOldStateOfTheCatalog(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	id, dir := c.replicaOf("c", "orders")
	me := c.nodes["c"].me
	for _, name := range []string{"a", "b", "c"} {
		c.stop(name)
	}
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.RemoveAll(datadir.WatermarksDir(c.dirs["c"])))
	made, err := datadir.LoadReplicaList(vfs.OS(), c.dirs["c"], me)
	require.NoError(t, err)
	require.NoError(t, made.Remove(id))
	c.start("c", nil)
	n := c.nodes["c"]
	c.eventually("the catalog that is stored here has been read", func() bool {
		_, ok := n.catalog.Load().Shown.Load().Logs["orders"]
		return ok
	})
	n.opener.Rehost()
	require.Nil(t, n.logs.Named("orders"), "nobody has said yet that this is the newest state")
	require.False(t, n.files.Created.Has(id))
	for _, name := range []string{"a", "b"} {
		c.start(name, nil)
	}
	c.eventually("the newest state is known", func() bool { return n.logs.Named("orders") != nil })
}

// acknowledged waits until the leader of a log knows that a node has all of it.
func (c *testCluster) acknowledged(name, log string) {
	c.t.Helper()
	c.eventually(name+" has acknowledged everything", func() bool {
		for _, l := range c.healthy().Logs {
			for _, r := range l.Replicas {
				if l.Name == log && r.Node == name {
					return r.End == l.End
				}
			}
		}
		return false
	})
}

// startOldCopy starts a node with an old copy of a log, and waits until it has a
// new replica of it. Only the leader that it acknowledged to can detect that it
// needs one: if the reign of that is over, the old replica just catches up.
func (c *testCluster) startOldCopy(name, log string, before uint64, reign func() bool) {
	c.t.Helper()
	c.start(name, nil)
	c.eventually("the replica has a new id", func() bool {
		h := c.nodes[name].logs.Named(log)
		return h != nil && h.ReplicaID != before && h.Problem() == nil || !reign()
	})
	if reign() {
		c.renewed(name, log, before)
	}
	c.healthy()
}

func TestAReplicaBroughtBackFromAnOldCopyIsRenewed(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	follower := c.follower("orders")
	before, dir := c.replicaOf(follower, "orders")
	c.stop(follower)
	require.NoError(t, os.CopyFS(dir+".copy", os.DirFS(dir)))
	c.start(follower, nil)
	c.healthy()
	c.append("orders", numbered(10, 20)...)
	_, reign := c.reign("orders")
	c.acknowledged(follower, "orders")
	c.stop(follower)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(dir+".copy", dir))
	c.startOldCopy(follower, "orders", before, reign)
	c.sameOn("orders", numbered(0, 20))
}

func TestACatalogBroughtBackFromAnOldCopyIsRenewed(t *testing.T) {
	t.Parallel()
	c := three(t, 1)
	follower := c.follower(cluster.CatalogName)
	before, dir := c.replicaOf(follower, cluster.CatalogName)
	c.stop(follower)
	require.NoError(t, os.CopyFS(dir+".copy", os.DirFS(dir)))
	c.start(follower, nil)
	c.healthy()
	for i := range 3 {
		_, err := c.createLog(c.leader(cluster.CatalogName), fmt.Sprint("more-", i), settings.Config{})
		require.NoError(t, err)
	}
	_, reign := c.reign(cluster.CatalogName)
	c.acknowledged(follower, cluster.CatalogName)
	c.stop(follower)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(dir+".copy", dir))
	c.startOldCopy(follower, cluster.CatalogName, before, reign)
	_, err := c.createLog(follower, "last", settings.Config{})
	require.NoError(t, err)
}

func TestALogAloneIsNotRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "orders", settings.Config{})
	mustAppend(t, n, "orders", "one")
	h := n.logs.Named("orders")
	files := n.files.ReplicaDir(h.ID, h.ReplicaID)
	require.NoError(t, n.Close(t.Context()))
	require.NoError(t, os.RemoveAll(files))
	n = open(t, dir)
	info, err := n.KnownInfo(anyone, "orders")
	require.NoError(t, err)
	require.Contains(t, info.Problem, "bring the files back from a copy")
	requireReason(t, record.Corrupt, appendTo(t, n, "orders", request(t, "two")).Refusal)
}

// Two of three have forgotten: what they had acknowledged together may be gone,
// and no new replica can change that.
func TestALogWhoseMajorityHasForgottenStops(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	for _, name := range []string{"a", "b", "c"} {
		_, dir := c.replicaOf(name, "orders")
		c.stop(name)
		if name != "c" {
			require.NoError(t, os.RemoveAll(dir))
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		c.start(name, nil)
	}
	c.eventually("one of them says so", func() bool {
		return slices.ContainsFunc([]string{"a", "b"}, func(name string) bool {
			info, err := c.nodes[name].KnownInfo(anyone, "orders")
			return err == nil && strings.Contains(info.Problem, "a majority of its replicas")
		})
	})
	texts, err := c.values("c", "orders", reading.Request{})
	require.NoError(t, err)
	require.Equal(t, numbered(0, 10), texts, "what is left is read by who asks for it")
}

func TestANodeThatHasLostItsCatalogGetsAnother(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	before, dir := c.replicaOf("c", cluster.CatalogName)
	old, err := os.ReadFile(filepath.Join(c.dirs["c"], "node.json"))
	require.NoError(t, err)
	c.stop("c")
	require.NoError(t, os.RemoveAll(dir))
	c.start("c", nil)
	c.eventually("c has begun", func() bool { return c.nodes["c"].catalog.Load() != nil })
	c.renewed("c", cluster.CatalogName, before)
	after, _ := c.replicaOf("c", cluster.CatalogName)
	_, err = c.createLog("c", "more", settings.Config{})
	require.NoError(t, err)
	c.sameOn("orders", numbered(0, 10))

	c.stop("c")
	require.NoError(t, os.WriteFile(filepath.Join(c.dirs["c"], "node.json"), old, 0o644), "an old copy does as well")
	c.start("c", nil)
	c.eventually("c has begun", func() bool { return c.nodes["c"].catalog.Load() != nil })
	c.healthy()
	now, _ := c.replicaOf("c", cluster.CatalogName)
	require.Equal(t, after, now)
}

func TestADamagedIdentityIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	require.NoError(t, n.Close(t.Context()))
	path := filepath.Join(dir, "node.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := strings.Replace(string(text), `"catalog_replica": 1`, `"catalog_replica": 3`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o644))
	_, err = Open(settings.Options{FormAlone: true, DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "does not match its checksum")
}

// With the list, nothing else shows that there was such a replica.
func TestAMemoryLogIsNotBegunAnewBecauseTheListIsDamaged(t *testing.T) {
	t.Parallel()
	for _, damage := range []func(list string) string{
		func(string) string { return "" },
		func(string) string { return "[1, 2" },
		func(list string) string { return strings.Replace(list, "2", "6", 1) },
	} {
		dir := t.TempDir()
		n := open(t, dir)
		create(t, n, "cache", settings.Config{Durability: settings.Memory})
		mustAppend(t, n, "cache", "one")
		require.NoError(t, n.Close(t.Context()))
		damageList(t, dir, damage)

		n = open(t, dir)
		_, err := n.Read(t.Context(), anyone, "cache", reading.Request{From: reading.From{Kind: reading.FromOffset}, Until: reading.NoOffset})
		requireReason(t, record.DataLost, err)
		require.Equal(t, record.Offset(cluster.OffsetBlock), mustAppend(t, n, "cache", "two"), "no offset is used twice")
		require.NoError(t, n.Close(t.Context()))

		n = open(t, dir)
		require.Equal(t, record.Offset(2*cluster.OffsetBlock), mustAppend(t, n, "cache", "three"), "and the list is a list again")
		require.NoError(t, n.Close(t.Context()))
	}
}

// damageList changes replicas.json, or removes it where nothing is left.
func damageList(t *testing.T, dir string, damage func(string) string) {
	t.Helper()
	path := filepath.Join(dir, "replicas.json")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	after := damage(string(before))
	require.NotEqual(t, string(before), after)
	require.NoError(t, os.Remove(path))
	if after != "" {
		require.NoError(t, os.WriteFile(path, []byte(after), 0o644))
	}
}

// Somebody has put node.json back into an empty data directory. Replicas that were
// made from nothing under their old ids would have forgotten what they promised.
func TestANodeThatHasNothingLeftButItsNameGetsNewReplicas(t *testing.T) {
	t.Parallel()
	c := three(t, 10)
	before, _ := c.replicaOf("c", "orders")
	catalog := c.nodes["c"].me.Load().CatalogReplica
	c.stop("c")
	require.NoError(t, os.RemoveAll(filepath.Join(c.dirs["c"], "logs")))
	damageList(t, c.dirs["c"], func(string) string { return "" })
	c.start("c", nil)
	c.renewed("c", "orders", before)
	require.NotEqual(t, catalog, c.nodes["c"].me.Load().CatalogReplica)
	c.sameOn("orders", numbered(0, 10))

	renewed, _ := c.replicaOf("c", "orders")
	c.stop("c")
	c.start("c", nil)
	c.sameOn("orders", numbered(0, 10))
	again, _ := c.replicaOf("c", "orders")
	require.Equal(t, renewed, again, "that was once")
}

// The list of replicas is damaged or gone: what is there is not made anew.
func TestALogThatIsThereIsNotMadeAnewBecauseAListDoesNotNameIt(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"", "[77]", "[1, 2"} {
		dir := t.TempDir()
		n := open(t, dir)
		create(t, n, "orders", settings.Config{})
		mustAppend(t, n, "orders", "one")
		require.NoError(t, n.Close(t.Context()))
		path := filepath.Join(dir, "replicas.json")
		require.NoError(t, os.Remove(path))
		if list != "" {
			require.NoError(t, os.WriteFile(path, []byte(list), 0o644))
		}
		n = open(t, dir)
		require.Equal(t, []string{"0:one"}, read(t, n, "orders", everything))
		h := n.logs.Named("orders")
		require.True(t, n.files.Created.Has(h.ReplicaID))
		require.NoError(t, n.Close(t.Context()))
	}
}

// holedDisk is a disk that cannot read some bytes of some files any more.
type holedDisk struct {
	vfs.FS
	mu    sync.Mutex
	files map[string]*hole // by name
}

// hole is the position in a file that cannot be read; 0: there is none.
type hole struct{ atomic.Int64 }

func newHoledDisk() *holedDisk { return &holedDisk{FS: vfs.OS(), files: map[string]*hole{}} }

// file is that of a name, whatever it was called before.
func (d *holedDisk) file(name string) *hole {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		d.files[name] = &hole{}
	}
	return d.files[name]
}

func (d *holedDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return holedFile{f, d.file(name), name}, err
}

func (d *holedDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return holedFile{f, d.file(name), name}, err
}

func (d *holedDisk) Rename(from, to string) error {
	err := d.FS.Rename(from, to)
	moved := d.file(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.files[to] = moved
		delete(d.files, from)
	}
	return err
}

type holedFile struct {
	vfs.File
	hole *hole
	name string
}

func (f holedFile) ReadAt(b []byte, position int64) (int, error) {
	if at := f.hole.Load(); at > 0 && at >= position && at < position+int64(len(b)) {
		return 0, &os.PathError{Op: "read", Path: f.name, Err: syscall.EIO}
	}
	return f.File.ReadAt(b, position)
}

func TestAReplicaWhoseNewestSegmentCannotBeReadIsRenewed(t *testing.T) {
	t.Parallel()
	disk := newHoledDisk()
	c := several(t, 100, func(o *settings.Options) { o.Disk = disk })
	before, dir := c.replicaOf("c", "orders")
	c.stop("c")
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	disk.file(slices.Max(files)).Store(4096 + 200)
	c.start("c", nil)
	c.renewed("c", "orders", before)
	c.sameOn("orders", long(0, 100))
}

// A replica that runs knows what it promised: it begins another segment, and the
// one that cannot be read is repaired.
func TestARunningReplicaWhoseNewestSegmentCannotBeReadIsRepaired(t *testing.T) {
	t.Parallel()
	disk := newHoledDisk()
	c := several(t, 100, func(o *settings.Options) { o.Disk = disk })
	leader := c.leader("orders")
	before, dir := c.replicaOf(leader, "orders")
	h := c.nodes[leader].logs.Named("orders")
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	disk.file(slices.Max(files)).Store(4096 + 200)
	damage := firstDamage(h)
	require.Error(t, damage)
	h.Found(damage)
	c.eventually("it is repaired", func() bool {
		c.append("orders", "more")
		return len(kept(t, dir)) > 0
	})
	after, _ := c.replicaOf(leader, "orders")
	require.Equal(t, before, after)
	require.Same(t, h, c.nodes[leader].logs.Named("orders"))
	c.healthy()
}

// firstDamage reads the log until it proves damaged.
func firstDamage(h *hosted.Log) error {
	for i := h.Store.FirstIndex(); i <= h.Store.LastIndex(); {
		frames, err := h.Store.Entries(i, h.Store.LastIndex()+1, 1<<20)
		if err != nil {
			return err
		}
		i += uint64(len(frames))
	}
	return nil
}
