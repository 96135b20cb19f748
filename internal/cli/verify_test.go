package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/store"
	"strandline.dev/internal/vfs"
)

// storedReplica writes a log of some segments into a data directory and returns
// the replica's directory in it, and its segment files.
func storedReplica(t *testing.T) (data, dir string, segments []string) {
	t.Helper()
	data = t.TempDir()
	dir = filepath.Join(data, "logs", "3", "7")
	identity := `{"format_version":2,"cluster_id":"C","node_id":1,"name":"a","catalog_replica":1,"catalog_voters":[1]}`
	require.NoError(t, os.WriteFile(filepath.Join(data, "node.json"), []byte(identity), 0o600))
	list := `{"made":[7],"sum":%d}`
	list = fmt.Sprintf(list, record.Checksum(fmt.Appendf(nil, list, 0)))
	require.NoError(t, os.WriteFile(filepath.Join(data, "replicas.json"), []byte(list), 0o600))
	log, err := store.Create(vfs.OS(), dir, store.Options{
		Owner: segment.Owner{Cluster: "C", Log: 3, Replica: 7},

		SegmentBytes: 16 << 10, Manual: true, Logger: slog.New(slog.DiscardHandler),
	}, segment.Bootstrap{Index: 1, Term: 1, Snapshot: []byte("state")})
	require.NoError(t, err)
	for i := uint64(2); i < 50; i++ {
		payload := []byte(strings.Repeat("x", 1000))
		frame := segment.Entry{Index: i, Term: 1, First: record.Offset(3 * (i - 2)), Count: 3, CRC: record.Checksum(payload), Payload: payload}
		_, err := log.Write([]segment.Write{{
			Entries: []segment.Entry{frame}, HardState: &segment.HardState{Term: 1, Commit: i - 1}, MustSync: true,
		}})
		require.NoError(t, err)
	}
	require.NoError(t, log.Close())
	require.NoError(t, os.WriteFile(filepath.Join(data, "lock"), nil, 0o600))
	segments, err = filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 2)
	return data, dir, segments
}

func flipByte(t *testing.T, name string, at int) {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	content[at] ^= 1
	require.NoError(t, os.WriteFile(name, content, 0o600))
}

func TestVerifyOfAWholeDirectoryExitsZero(t *testing.T) {
	t.Parallel()
	data, dir, _ := storedReplica(t)
	for _, where := range []string{data, dir} {
		o := execute(t, nil, "", "verify", where)
		require.Equal(t, terminal.ExitOK, o.code, o.err)
		require.Contains(t, o.out, "log 3, replica 7: whole; ")
		require.Contains(t, o.out, "48 entries, offsets up to 144\n")
	}
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	o := execute(t, nil, "", "verify", copied)
	require.Equal(t, terminal.ExitOK, o.code, o.err)
	require.Contains(t, o.out, copied+": whole; ")
}

func TestVerifyNamesWhatIsDamagedAndWhatToDo(t *testing.T) {
	t.Parallel()
	data, dir, segments := storedReplica(t)
	flipByte(t, segments[0], 4096+80) // the payload of entry 2
	require.NoError(t, os.Remove(segments[1]))
	o := execute(t, nil, "", "verify", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, "log 3, replica 7: damaged; ")
	require.Contains(t, o.out, segments[0]+", bytes 4096 to 5168: payload of entry 2 has CRC")
	require.Contains(t, o.out, "lost with it: entries 2 to 2, offsets 0 to 2\n")
	require.Contains(t, o.out, filepath.Join(dir, "00000000000000000002-*.seg: the segment file is missing"))
	require.Contains(t, o.out, "A start of the node and its first scrub repair it")
	require.Equal(t, "strandline: 1 of 1 replicas are damaged\n", o.err)

	o = execute(t, nil, "", "verify", "--json", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	type damage struct {
		File            string
		Position, Bytes int64
		First           uint64 `json:"first_index"`
		Last            uint64 `json:"last_index"`
		End             int64  `json:"end_offset"`
		Detail          string
		Repairable      bool
	}
	var result struct {
		State  string
		Damage []damage
	}
	require.NoError(t, json.Unmarshal([]byte(o.out), &result))
	require.Equal(t, "damaged", result.State)
	require.Len(t, result.Damage, 2)
	require.Equal(t, damage{
		File: segments[0], Position: 4096, Bytes: 1072, First: 2, Last: 2, End: 3,
		Detail: result.Damage[0].Detail, Repairable: true,
	}, result.Damage[0])
}

func TestVerifyReportsWhatOthersCannotRepair(t *testing.T) {
	t.Parallel()
	data, _, segments := storedReplica(t)
	flipByte(t, segments[len(segments)-1], 50)
	o := execute(t, nil, "", "verify", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, "log 3, replica 7: lost; ")
	require.Contains(t, o.out, "it must come back as a new one")
}

func TestVerifyDoesNotReadBesideANode(t *testing.T) {
	t.Parallel()
	data, dir, _ := storedReplica(t)
	lock, err := vfs.OS().Lock(filepath.Join(data, "lock"))
	require.NoError(t, err)
	defer lock.Close()
	for _, where := range []string{data, dir} {
		o := execute(t, nil, "", "verify", where)
		require.Equal(t, terminal.ExitFailed, o.code)
		require.Empty(t, o.out)
		require.Contains(t, o.err, "another process holds the lock")
		require.Contains(t, o.err, "stop the node that runs on it first")
	}
}

func TestVerifyOfSomethingElseSaysWhatToGive(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", "verify", t.TempDir())
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "has no log")
	require.Contains(t, o.err, "give the --data directory of a node")
}

func TestVerifyNamesFilesThatBelongElsewhere(t *testing.T) {
	t.Parallel()
	data, dir, segments := storedReplica(t)
	moved := filepath.Join(data, "logs", "4", "9")
	require.NoError(t, os.CopyFS(moved, os.DirFS(dir)))
	o := execute(t, nil, "", "verify", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, "log 3, replica 7: whole; ")
	require.Contains(t, o.out, "log 4, replica 9: lost; ")
	require.Contains(t, o.out, filepath.Join(moved, filepath.Base(segments[0]))+", bytes 0 to 4096: the file belongs to replica 7 of log 3, not to replica 9 of log 4")
	require.Equal(t, "strandline: 1 of 2 replicas are damaged\n", o.err)
}

func TestVerifyNamesDamageOfTheNodesOwnFiles(t *testing.T) {
	t.Parallel()
	data, _, _ := storedReplica(t)
	require.NoError(t, os.Remove(filepath.Join(data, "replicas.json")))
	o := execute(t, nil, "", "verify", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, filepath.Join(data, "replicas.json")+" is missing")
	require.Equal(t, "strandline: the node's own files in "+data+" are damaged\n", o.err)
	flipByte(t, filepath.Join(data, "node.json"), 20)
	o = execute(t, nil, "", "verify", "--json", data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, filepath.Join(data, "node.json"))
}
