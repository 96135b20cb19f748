package datadir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

func TestALifeIsOutlivedByWhatOthersHaveHeard(t *testing.T) {
	disk := vfs.OS()
	dir := dataDir(t)
	run := func() *Incarnations {
		l, err := LoadIncarnations(disk, dir, pointer(Identity{ClusterID: "c", NodeID: 1}))
		require.NoError(t, err)
		require.NoError(t, l.Begin())
		return l
	}
	other, err := LoadIncarnations(disk, dataDir(t), pointer(Identity{ClusterID: "c", NodeID: 2}))
	require.NoError(t, err)
	require.NoError(t, other.Begin())
	meet := func(l *Incarnations) (older bool, forgotten uint64) {
		own, _ := l.Greeting()
		_, known := other.Greeting()
		_, forgotten = l.Meet(2, peer.Incarnation{Number: 1, Run: 7}, known[1])
		older, _ = other.Meet(1, own, peer.Incarnation{})
		return older, forgotten
	}
	requireWhole := func(l *Incarnations) {
		older, forgotten := meet(l)
		require.False(t, older)
		require.Zero(t, forgotten)
	}
	first := run()
	requireWhole(first)
	requireWhole(first)
	second := run()
	requireWhole(second)
	kept, err := os.ReadFile(second.path)
	require.NoError(t, err)
	second.Wrote.Store(true)
	require.NoError(t, second.Advance())
	own, _ := second.Greeting()
	other.Heard(1, own)
	requireWhole(second)

	require.NoError(t, os.WriteFile(second.path, kept, 0o644)) // of the same run, a while ago
	third := run()
	older, forgotten := meet(third)
	require.True(t, older)
	require.Equal(t, own.Number, forgotten)
	require.NoError(t, third.Raise(forgotten))
	requireWhole(third)
	requireWhole(run())

	full, err := LoadIncarnations(fullFS{disk}, dir, pointer(Identity{ClusterID: "c", NodeID: 1}))
	require.NoError(t, err)
	require.ErrorIs(t, full.Begin(), syscall.ENOSPC)
	requireWhole(full)
	requireWhole(run())
}

// A copy of a node's directory that was started beside the node is another run, which began later. How far the
// node has come meanwhile says nothing: others have taken votes and entries of the copy for its own.
func TestANodeWhoseCopyRanBesideItHasForgottenHoweverFarItHasCome(t *testing.T) {
	disk, dir := vfs.OS(), dataDir(t)
	load := func(dir string) *Incarnations {
		l, err := LoadIncarnations(disk, dir, pointer(Identity{ClusterID: "c", NodeID: 1}))
		require.NoError(t, err)
		require.NoError(t, l.Begin())
		return l
	}
	node := load(dir)
	copied := dataDir(t)
	require.NoError(t, os.CopyFS(copied+"/copy", os.DirFS(dir)))
	twin, _ := load(copied + "/copy").Greeting()
	for range 5 {
		node.Wrote.Store(true)
		require.NoError(t, node.Advance())
	}
	own, _ := node.Greeting()
	require.Greater(t, own.Number, twin.Number)

	other := peer.Incarnation{Number: 1, Run: 7}
	_, forgotten := node.Meet(2, other, twin)
	require.Equal(t, twin.Number, forgotten)
	require.NoError(t, node.Raise(forgotten))
	_, forgotten = node.Meet(2, other, twin)
	require.Zero(t, forgotten, "its replicas are others now")
}

// fullFS has no room for another file.
type fullFS struct{ vfs.FS }

func (fullFS) Create(string) (vfs.File, error) { return nil, syscall.ENOSPC }

// dataDir is a data directory as a node has it when it begins.
func dataDir(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(WatermarksDir(dir), 0o755))
	return dir
}

func pointer(me Identity) *Me {
	p := new(Me)
	p.Store(&me)
	return p
}

// Older copies of logs and of their watermarks are sound together.
func TestANodeIsAsOldAsItsWatermarks(t *testing.T) {
	disk, dir := vfs.OS(), dataDir(t)
	me := pointer(Identity{ClusterID: "c", NodeID: 1})
	begin := func() (*Incarnations, uint64) {
		l, err := LoadIncarnations(disk, dir, me)
		require.NoError(t, err)
		require.NoError(t, l.Begin())
		own, _ := l.Greeting()
		return l, own.Number
	}
	_, first := begin()
	mark, err := os.ReadFile(ageMarkPath(dir))
	require.NoError(t, err)
	begin()
	l, third := begin()
	require.Equal(t, first+2, third)
	require.NoError(t, l.Older)

	require.NoError(t, os.WriteFile(ageMarkPath(dir), mark, 0o644))
	l, again := begin()
	require.ErrorContains(t, l.Older, "has incarnation 1")
	require.Equal(t, first+1, again, "others have heard of more")
	require.NoError(t, l.Raise(third))
	l, now := begin()
	require.NoError(t, l.Older)
	require.Greater(t, now, third)

	for _, damage := range []func() error{
		func() error { return os.Remove(ageMarkPath(dir)) },
		func() error { return os.WriteFile(ageMarkPath(dir), mark[1:], 0o644) },
		func() error {
			return saveAgeMark(disk, dir, &Identity{ClusterID: "c", NodeID: 2}, peer.Incarnation{Number: 99})
		},
	} {
		require.NoError(t, damage())
		l, now := begin()
		require.Error(t, l.Older)
		require.EqualValues(t, 1, now)
	}

	// A version that knows no mark leaves it behind, and is believed.
	lives := incarnationsFile{Number: 20, Run: 7}
	lives.Sum = sumOf(lives)
	require.NoError(t, SaveJSON(disk, l.path, lives))
	l, now = begin()
	require.NoError(t, l.Older)
	require.EqualValues(t, 21, now)
}

func TestFilesOfAnotherNodeAreDamaged(t *testing.T) {
	disk, dir := vfs.OS(), dataDir(t)
	me := Identity{Format: FormatVersion, ClusterID: "c", NodeID: 1, Name: "a", CatalogReplica: 1, CatalogVoters: []uint64{1}}
	require.NoError(t, me.Save(disk, dir))
	other := pointer(Identity{ClusterID: "c", NodeID: 2})
	list := &ReplicaList{disk: disk, path: filepath.Join(dir, "replicas.json"), me: other}
	require.NoError(t, list.Add(7))
	lives := &Incarnations{disk: disk, dir: dir, path: filepath.Join(dir, "lives.json"), me: other}
	require.NoError(t, lives.Begin())
	_, damage, err := CheckData(disk, dir)
	require.NoError(t, err)
	require.Len(t, damage, 2)
	for _, d := range damage {
		require.Contains(t, d.Detail, "belongs to node 2 of cluster c")
	}
	made, err := LoadReplicaList(disk, dir, pointer(me))
	require.NoError(t, err)
	require.True(t, made.Has(8), "all count as made")
}
