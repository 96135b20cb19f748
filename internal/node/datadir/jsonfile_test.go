package datadir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/vfs"
)

// A newer version has more members in the node's files. An older one checks them too, and
// keeps them when it writes the file again.
func TestFilesOfANewerVersionAreCheckedAndKept(t *testing.T) {
	disk, dir := vfs.OS(), dataDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) string {
		text, err := os.ReadFile(path(name))
		require.NoError(t, err)
		return string(text)
	}
	me := Identity{Format: FormatVersion, ClusterID: "c", NodeID: 1, Name: "a<b>", CatalogReplica: 1, CatalogVoters: []uint64{1},
		Seeds: []cluster.Node{{ID: 1, Name: "a", Unknown: `"zone":"x"`}}}
	me.Unknown = `"region":{"name":"<eu>"}`
	list := createdReplicas{Made: []uint64{1, 2}, Unknown: `"region":1`}
	list.Sum = sumOf(list)
	lives := incarnationsFile{Number: 7, Run: 8, Known: map[uint64]peer.Incarnation{2: {Number: 3}}, Unknown: `"region":1`}
	lives.Sum = sumOf(lives)
	require.NoError(t, me.Save(disk, dir))
	require.NoError(t, SaveJSON(disk, path("replicas.json"), list))
	require.NoError(t, SaveJSON(disk, path("lives.json"), lives))

	identity, err := LoadIdentity(disk, dir)
	require.NoError(t, err)
	require.NoError(t, identity.Save(disk, dir))
	replicas, err := LoadReplicaList(disk, dir, pointer(me))
	require.NoError(t, err)
	require.NoError(t, replicas.Damaged)
	require.NoError(t, replicas.Add(9))
	incarnations, err := LoadIncarnations(disk, dir, pointer(me))
	require.NoError(t, err)
	require.NoError(t, incarnations.Damaged)
	require.NoError(t, incarnations.Begin())
	for _, name := range []string{"node.json", "replicas.json", "lives.json"} {
		require.Contains(t, read(name), `"region"`, name)
	}
	require.Contains(t, read("node.json"), `"zone": "x"`)
	_, damage, err := CheckData(disk, dir)
	require.NoError(t, err)
	require.Empty(t, damage)

	for _, name := range []string{"node.json", "replicas.json", "lives.json"} {
		text := strings.Replace(read(name), "region", "regiom", 1)
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o644))
	}
	_, damage, err = CheckData(disk, dir)
	require.NoError(t, err)
	require.Len(t, damage, 3, "what is not known is covered by the checksum")
}

// The files of before unknown members were kept: the checksum is of the struct alone.
func TestChecksumsOfOlderFilesMatch(t *testing.T) {
	type older struct {
		Format int    `json:"format_version"`
		Name   string `json:"name"`
		Sum    uint32 `json:"sum,omitempty"`
		Seeds  []int  `json:"seeds,omitempty"`
	}
	for _, file := range []older{{1, "a", 0, nil}, {1, "a", 0, []int{1, 2}}, {2, "<a>", 0, nil}} {
		text, err := json.MarshalIndent(file, "", "  ")
		require.NoError(t, err)
		require.True(t, sumMatches(text, ""), "files had none once")
		file.Sum = sumOf(file)
		text, err = json.MarshalIndent(file, "", "  ")
		require.NoError(t, err)
		require.True(t, sumMatches(text, ""))
		file.Format++
		text, err = json.MarshalIndent(file, "", "  ")
		require.NoError(t, err)
		require.False(t, sumMatches(text, ""))
	}
	for _, text := range []string{"", "[]", "{", `{"sum":-1}`, `{"sum":"7"}`, `{"sum":{}}`} {
		require.False(t, sumMatches([]byte(text), "0"), text)
	}
	require.False(t, sumMatches([]byte(`{"sum":7}`), ""))
}
