package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/segment/repair"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// exchanged is a cluster of which files on node c are exchanged, copied, renamed
// and rolled back while it is stopped. Each of its logs has several segments.
type exchanged struct {
	*testCluster
	want map[string][]string // values by log
	said *lines              // by node c
	copy string              // of c's data directory as it was before the newest records
}

func newExchanged(t *testing.T) *exchanged {
	e := &exchanged{want: map[string][]string{}, said: &lines{}}
	e.testCluster = newClusterWith(t, func(o *settings.Options) {
		o.SegmentBytes = 32 << 10
		if o.Name == "c" {
			o.Logger = slog.New(slog.NewTextHandler(e.said, nil))
		}
	}, "a", "b", "c")
	for _, log := range []string{"x", "y"} {
		_, err := e.createLog("a", log, settings.Config{})
		require.NoError(t, err)
		for range 8 {
			e.write(log)
		}
	}
	e.healthy()
	return e
}

// write appends about a third of a segment.
func (e *exchanged) write(log string) {
	text := fmt.Sprintf("<%d of %s>%s", len(e.want[log]), log, strings.Repeat(".", 10<<10))
	e.append(log, text)
	e.want[log] = append(e.want[log], text)
}

// prepare stops node c when it holds records that its copy of before does not.
func (e *exchanged) prepare() {
	e.t.Helper()
	e.stop("c")
	e.copy = e.t.TempDir()
	require.NoError(e.t, os.CopyFS(e.copy, os.DirFS(e.dirs["c"])))
	e.start("c", nil)
	e.healthy()
	for log := range e.want {
		e.write(log)
		e.acknowledged("c", log)
	}
	e.stop("c")
}

// dir is the directory of a log's replica on a node.
func (e *exchanged) dir(node, log string) string {
	e.t.Helper()
	status := e.status()
	for _, l := range status.Logs {
		for _, r := range l.Replicas {
			if l.Name == log && r.Node == node {
				return filepath.Join(e.dirs[node], "logs", fmt.Sprint(l.ID), fmt.Sprint(r.Replica))
			}
		}
	}
	e.t.Fatalf("no replica of %s on %s", log, node)
	return ""
}

func (e *exchanged) status() (s verbs.ClusterStatus) {
	e.t.Helper()
	e.eventually("the status is known", func() bool {
		var err error
		s, err = e.nodes["a"].ClusterStatus(e.t.Context(), anyone)
		return err == nil && len(s.Logs) >= len(e.want)
	})
	return s
}

// file is the n-th file in dir with a suffix; below 0, from the end.
func (e *exchanged) file(dir, suffix string, n int) string {
	e.t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	require.NoError(e.t, err)
	slices.Sort(names)
	if n < 0 {
		n += len(names)
	}
	require.Less(e.t, n, len(names), "%s in %s", suffix, dir)
	return names[n]
}

func (e *exchanged) swap(a, b string) {
	e.t.Helper()
	between := a + ".between"
	require.NoError(e.t, os.Rename(a, between))
	require.NoError(e.t, os.Rename(b, a))
	require.NoError(e.t, os.Rename(between, b))
}

// put replaces a file or directory by a copy of another.
func (e *exchanged) put(from, to string) {
	e.t.Helper()
	require.NoError(e.t, os.RemoveAll(to))
	info, err := os.Stat(from)
	require.NoError(e.t, err)
	if info.IsDir() {
		e.eventually("it is copied", func() bool {
			err = os.CopyFS(to, os.DirFS(from))
			if !errors.Is(err, fs.ErrNotExist) {
				return true
			}
			require.NoError(e.t, os.RemoveAll(to)) // a node that runs has removed a file meanwhile
			return false
		})
		require.NoError(e.t, err)
		return
	}
	data, err := os.ReadFile(from)
	require.NoError(e.t, err)
	require.NoError(e.t, os.WriteFile(to, data, 0o644))
}

// back puts the older copy of a file or directory in its place.
func (e *exchanged) back(path string) {
	e.t.Helper()
	name, err := filepath.Rel(e.dirs["c"], path)
	require.NoError(e.t, err)
	e.put(filepath.Join(e.copy, name), path)
}

// requireRepaired starts node c, reads what it serves while it is repaired, and
// waits until it serves everything.
func (e *exchanged) requireRepaired() {
	e.t.Helper()
	e.start("c", nil)
	e.requireServed()
}

// requireServed reads what node c serves until that is everything.
func (e *exchanged) requireServed() {
	e.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for _, log := range []string{"x", "y"} {
		for {
			values, err := e.valuesNow("c", log, reading.Request{Consistency: reading.ConsistencyAny})
			require.LessOrEqual(e.t, len(values), len(e.want[log]))
			if len(values) > 0 {
				require.Equal(e.t, e.want[log][:len(values)], values, "c serves what is not in log %s", log)
			}
			if err == nil && len(values) == len(e.want[log]) && !e.damaged("c", log) {
				break
			}
			require.True(e.t, time.Now().Before(deadline), "c does not serve %s: %v", log, err)
			time.Sleep(10 * time.Millisecond)
		}
	}
	e.healthy()
	for log, want := range e.want {
		values, err := e.values("c", log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(e.t, err)
		require.Equal(e.t, want, values)
	}
}

// damaged reports whether a node knows of damage to its files of a log.
func (e *exchanged) damaged(node, log string) bool {
	h := e.nodes[node].logs.Named(log)
	return h == nil || h.Unavailable.Load() != nil || h.Reported.Load() || h.Repairs.Underway()
}

// verified are the details of what a survey of a replica's directory finds, as
// verify shows it.
func (e *exchanged) verified(dir string) string {
	e.t.Helper()
	log, replica := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
	o := store.Options{Watermark: filepath.Join(datadir.WatermarksDir(e.dirs["c"]), log+"-"+replica)}
	_, err := fmt.Sscan(log, &o.Owner.Log)
	require.NoError(e.t, err)
	_, err = fmt.Sscan(replica, &o.Owner.Replica)
	require.NoError(e.t, err)
	o.Owner.Cluster = e.nodes["a"].ClusterID()
	report, err := repair.Survey(e.t.Context(), vfs.OS(), dir, o, nil)
	if err != nil {
		return err.Error()
	}
	var details []string
	for _, d := range report.Damage {
		details = append(details, d.File+": "+d.Detail)
	}
	return strings.Join(details, "\n")
}

// TestWhatIsExchangedIsNeverServedAndIsRepaired does every exchange there is with
// the files of one node of three. Nothing wrong is served by it at any time; verify
// and the node itself name what is wrong; and it is repaired from the others.
func TestWhatIsExchangedIsNeverServedAndIsRepaired(t *testing.T) {
	t.Parallel()
	e := newExchanged(t)
	rows := []struct {
		name     string
		exchange func(x, y string) // directories of c's replicas of the two logs
		verified string            // what verify says of x or y; empty: nothing
		said     string            // what node c says; empty: nothing needs to be said
	}{
		{"the first segment is copied from another log", func(x, y string) {
			e.put(e.file(y, ".seg", 0), e.file(x, ".seg", 0))
		}, "belongs to", "belongs to"},
		{"segments in the middle are exchanged between logs", func(x, y string) {
			e.swap(e.file(x, ".seg", 1), e.file(y, ".seg", 1))
		}, "belongs to", "belongs to"},
		{"the newest segments are exchanged between logs", func(x, y string) {
			e.swap(e.file(x, ".seg", -1), e.file(y, ".seg", -1))
		}, "belongs to", "belongs to"},
		{"the snapshots are exchanged between logs", func(x, y string) {
			e.swap(e.file(x, ".snap", -1), e.file(y, ".snap", -1))
		}, "belongs to", "belongs to"},
		{"the begin marks are exchanged between logs", func(x, y string) {
			e.swap(e.file(x, ".begin", 0), e.file(y, ".begin", 0))
		}, "belongs to", "belongs to"},
		{"the watermarks are exchanged between logs", func(x, y string) {
			e.swap(e.watermark(x), e.watermark(y))
		}, "belongs to", "belongs to"},
		{"two segments of a log are exchanged", func(x, _ string) {
			e.swap(e.file(x, ".seg", 0), e.file(x, ".seg", 1))
		}, "header of segment", "header of segment"},
		{"a segment is renamed", func(x, _ string) {
			name := e.file(x, ".seg", 1)
			require.NoError(e.t, os.Rename(name, strings.Replace(name, "/00000000000000000002-", "/00000000000000000099-", 1)))
		}, "is missing", "header of segment"},
		{"the files of two replicas are exchanged", func(x, y string) { e.swap(x, y) }, "belongs to", "belongs to"},
		{"the directories of two logs are exchanged", func(x, y string) {
			e.swap(filepath.Dir(x), filepath.Dir(y))
		}, "", "the catalog places replica"},
		{"the files of a replica are those of another node", func(x, _ string) {
			e.put(e.dir("b", "x"), x)
		}, "belongs to", "belongs to"},
		{"the directory of a replica is that of another node", func(x, _ string) {
			require.NoError(e.t, os.RemoveAll(x))
			e.put(e.dir("b", "x"), filepath.Join(filepath.Dir(x), filepath.Base(e.dir("b", "x"))))
		}, "", "the catalog places replica"},
		{"an older copy of the newest segment", func(x, _ string) {
			newest := e.file(filepath.Join(e.copy, strings.TrimPrefix(x, e.dirs["c"])), ".seg", -1)
			e.put(newest, filepath.Join(x, filepath.Base(newest)))
		}, ".seg: ", ".seg"},
		{"an older copy of a replica's directory", func(x, _ string) { e.back(x) },
			"before what was known to be durable", "before what was known to be durable"},
		{"an older copy of a log's directory", func(x, _ string) { e.back(filepath.Dir(x)) },
			"before what was known to be durable", "before what was known to be durable"},
		{"an older copy of the directory of all logs", func(string, string) { e.back(filepath.Join(e.dirs["c"], "logs")) },
			"before what was known to be durable", "before what was known to be durable"},
		{"older copies of the watermarks", func(string, string) { e.back(datadir.WatermarksDir(e.dirs["c"])) }, "", ""},
		{"an older copy of node.json", func(string, string) { e.back(filepath.Join(e.dirs["c"], "node.json")) }, "", ""},
		{"an older copy of replicas.json", func(string, string) { e.back(filepath.Join(e.dirs["c"], "replicas.json")) }, "", ""},
		{"replicas.json of another node", func(string, string) {
			e.put(filepath.Join(e.dirs["b"], "replicas.json"), filepath.Join(e.dirs["c"], "replicas.json"))
		}, "", ""},
		{"lives.json of another node", func(string, string) {
			e.put(filepath.Join(e.dirs["b"], "lives.json"), filepath.Join(e.dirs["c"], "lives.json"))
		}, "", "belongs to node"},
		{"the logs and watermarks of another node", func(string, string) {
			e.put(filepath.Join(e.dirs["b"], "logs"), filepath.Join(e.dirs["c"], "logs"))
			e.put(datadir.WatermarksDir(e.dirs["b"]), datadir.WatermarksDir(e.dirs["c"]))
		}, "", "belongs to node"},
		{"older copies of the logs and of their watermarks", func(string, string) {
			e.back(filepath.Join(e.dirs["c"], "logs"))
			e.back(datadir.WatermarksDir(e.dirs["c"]))
		}, "", "this node has started with an older copy of its data"},
		{"replicas.json of another node, and the files of a replica are gone", func(x, _ string) {
			e.put(filepath.Join(e.dirs["b"], "replicas.json"), filepath.Join(e.dirs["c"], "replicas.json"))
			require.NoError(e.t, os.RemoveAll(x))
		}, "", "its files are gone"},
	}
	for _, row := range rows {
		if !t.Run(row.name, func(sub *testing.T) {
			e.t = sub
			defer func() { e.t = t }()
			e.prepare()
			x, y := e.dir("c", "x"), e.dir("c", "y")
			row.exchange(x, y)
			if row.verified != "" {
				require.Contains(t, e.verified(x)+e.verified(y), row.verified)
			}
			before := e.said.count(row.said)
			e.requireRepaired()
			if row.said != "" {
				e.eventually("c names it", func() bool { return e.said.count(row.said) > before })
			}
		}) {
			return
		}
	}
}

// A replica whose files, watermark and entry in the list are all another node's is not
// made again from nothing.
func TestFilesOfAnotherNodeMakeNoReplicaForget(t *testing.T) {
	t.Parallel()
	e := newExchanged(t)
	x := filepath.Dir(e.dir("c", "x"))
	e.stop("b")
	e.write("x") // acknowledged by a and c
	e.stop("c")
	e.stop("a")
	for _, name := range []string{filepath.Join("logs", filepath.Base(x)), "replicas.json", "watermarks"} {
		e.put(filepath.Join(e.dirs["b"], name), filepath.Join(e.dirs["c"], name))
	}
	e.start("b", nil)
	e.start("c", nil)
	e.eventually("c has looked at its replica of x", func() bool {
		h := e.nodes["c"].logs.Named("x")
		return h != nil && (h.Unavailable.Load() != nil || h.Replica != nil)
	})
	h := e.nodes["c"].logs.Named("x")
	require.NotNil(t, h.Unavailable.Load(), "it has no voice")
	e.start("a", nil)
	e.requireServed()
}

// watermark is that of the replica in dir.
func (e *exchanged) watermark(dir string) string {
	return filepath.Join(datadir.WatermarksDir(e.dirs["c"]), filepath.Base(filepath.Dir(dir))+"-"+filepath.Base(dir))
}

// A node whose data are another node's does not begin.
func TestANodeDoesNotBeginWithWhatBelongsToAnother(t *testing.T) {
	t.Parallel()
	e := newExchanged(t)
	e.stop("b")
	e.stop("c")
	open := func() error {
		n, err := Open(settings.Options{DataDir: e.dirs["c"], Name: "c", Peers: e.addresses, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			require.NoError(t, n.Close(t.Context()))
		}
		return err
	}
	e.swap(filepath.Join(e.dirs["b"], "node.json"), filepath.Join(e.dirs["c"], "node.json"))
	require.ErrorContains(t, open(), `belongs to node "b"`)
	e.swap(filepath.Join(e.dirs["b"], "node.json"), filepath.Join(e.dirs["c"], "node.json"))
	e.swap(e.dirs["b"], e.dirs["c"])
	require.ErrorContains(t, open(), `belongs to node "b"`)
	e.swap(e.dirs["b"], e.dirs["c"])
	e.start("b", nil)
	e.requireRepaired()
}

// The whole data directory of a node is an older copy. Nothing in it shows that; the
// other nodes have heard from it since. It replaces all its replicas, also those of
// logs that it has never heard of.
func TestANodeThatComesBackWithAnOlderCopyOfAllItsDataReplacesItsReplicas(t *testing.T) {
	t.Parallel()
	e := newExchanged(t)
	e.prepare()
	e.start("c", nil)
	_, err := e.createLog("a", "z", settings.Config{})
	require.NoError(t, err)
	e.want["z"] = nil
	for log := range e.want {
		e.write(log)
		e.acknowledged("c", log)
	}
	before := map[string]uint64{}
	for _, log := range []string{cluster.CatalogName, "x", "y", "z"} {
		before[log], _ = e.replicaOf("c", log)
	}
	e.stop("c")
	e.back(e.dirs["c"])
	e.requireRepaired()
	for log, id := range before {
		e.renewed("c", log, id)
	}
	require.Positive(t, e.said.count("older copy of its data"))
	for log, want := range e.want {
		values, err := e.values("c", log, reading.Request{Consistency: reading.ConsistencyLinearizable})
		require.NoError(t, err)
		require.Equal(t, want, values)
	}
	for log := range e.want {
		e.write(log)
	}
	e.stop("c")
	e.requireRepaired()
	for _, log := range []string{"x", "y", "z"} {
		id, _ := e.replicaOf("c", log)
		require.NotEqual(t, before[log], id)
		before[log] = id
	}
	e.stop("c")
	e.requireRepaired()
	for _, log := range []string{"x", "y", "z"} {
		id, _ := e.replicaOf("c", log)
		require.Equal(t, before[log], id, "that was once")
	}
}

// The file that says how far a node has come is lost: the others know, and nothing
// else is wrong.
func TestANodeThatHasLostItsLifeHearsOfItFromOthers(t *testing.T) {
	t.Parallel()
	e := newExchanged(t)
	for _, damage := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.WriteFile(path, []byte("{"), 0o644) },
	} {
		e.prepare()
		before, dir := filepath.Base(e.dir("c", "x")), filepath.Join(e.dirs["c"], "lives.json")
		require.NoError(t, damage(dir))
		e.requireRepaired()
		id, _ := e.replicaOf("c", "x")
		require.Equal(t, before, fmt.Sprint(id))
		e.stop("c")
		e.requireRepaired()
	}
}

func TestAWatermarkGoesWithItsReplica(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, dir)
	create(t, n, "kept", settings.Config{})
	create(t, n, "gone", settings.Config{})
	watermark := func(log string) string {
		h := n.logs.Named(log)
		return datadir.WatermarkPath(dir, h.ID, h.ReplicaID)
	}
	kept, gone := watermark("kept"), watermark("gone")
	require.FileExists(t, gone)
	content, err := os.ReadFile(gone)
	require.NoError(t, err)
	require.NoError(t, n.DeleteLog(t.Context(), anyone, "gone"))
	require.Eventually(t, func() bool {
		_, err := os.Stat(gone)
		return os.IsNotExist(err)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, n.Close(t.Context()))
	require.NoError(t, os.WriteFile(gone, content, 0o644)) // as if a crash had come before
	n = open(t, dir)
	require.NoFileExists(t, gone)
	require.FileExists(t, kept)
	require.NoError(t, n.Close(t.Context()))
}
