package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// appendBatches makes a log of batches of so many records each; the one at an offset is another one.
func (p *process) appendBatches(log string, records, size, another int) {
	p.t.Helper()
	p.must("", "log", "create", log)
	c, err := client.Dial([]string{p.grpc})
	require.NoError(p.t, err)
	defer c.Close()
	producer, err := c.Producer(p.t.Context(), log)
	require.NoError(p.t, err)
	defer producer.Close(p.t.Context())
	for first := 0; first < records; first += size {
		var batch []client.Record
		for i := first; i < min(first+size, records); i++ {
			r := client.Record{Timestamp: time.UnixMilli(int64(1000 + i)), Value: fmt.Appendf(nil, "record %d", i)}
			if i == another {
				r.Value = []byte("forged")
			}
			batch = append(batch, r)
		}
		_, err := producer.AppendBatch(p.t.Context(), batch)
		require.NoError(p.t, err)
	}
}

// difference is what log diff --json says.
type difference struct {
	Equal     bool
	Offset    int64
	Detail    string
	Exchanges int
}

func TestLogsAreComparedByTheirDigests(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.appendBatches("orders", 500, 7, -1)
	p.appendBatches("same", 500, 7, -1)
	p.appendBatches("other", 500, 7, 321)

	var at500, at100 struct {
		Digest                     string
		At, From, Covered, Batches int64
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "digest", "orders", "--json")), &at500))
	require.EqualValues(t, 500, at500.At)
	require.Equal(t, at500.Digest+"  orders at 500: records [0, 500) in 72 batches\n", p.must("", "log", "digest", "orders"))
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "digest", "orders", "--at", "100", "--json")), &at100))
	require.NotEqual(t, at500.Digest, at100.Digest)

	require.Equal(t, "orders and same are equal: records [0, 500), digest "+at500.Digest+"\n", p.must("", "log", "diff", "orders", "same"))
	o := p.run(nil, "log", "diff", "orders", "other", "--json")
	require.Equal(t, terminal.ExitFailed, o.code)
	var found difference
	require.NoError(t, json.Unmarshal([]byte(o.out), &found), o.out)
	require.False(t, found.Equal)
	require.EqualValues(t, 321, found.Offset)
	require.Equal(t, "another value", found.Detail)
	require.LessOrEqual(t, found.Exchanges, 13)
	o = p.run(nil, "log", "diff", "orders", "other@"+p.grpc)
	require.Contains(t, o.out, "differ first at offset 321: another value")
	o = p.run(nil, "log", "diff", "orders")
	require.Contains(t, o.err, "one replica")

	require.Equal(t, "record 99\n", p.must("", "log", "prove", "orders", "--offset", "99", "--at", "500", "--digest", at500.Digest))
	o = p.run(nil, "log", "prove", "other", "--offset", "99", "--at", "500", "--digest", at500.Digest)
	require.NotZero(t, o.code)
	require.Contains(t, o.err, "UNPROVEN")
	o = p.run(nil, "log", "prove", "orders", "--offset", "99", "--at", "500", "--digest", "ab")
	require.Equal(t, terminal.ExitUsage, o.code)

	p.must("", "log", "trim", "orders", "--before", "50")
	require.Equal(t, "orders and same are equal: records [0, 500), digest "+at500.Digest+"\n", p.must("", "log", "diff", "orders", "same"), "what was trimmed counts by its digest")
	o = p.run(nil, "log", "digest", "orders", "--at", "49")
	require.Equal(t, terminal.ExitRefused, o.code)
}

// Whichever node is dialled, the leader's replica is compared with all others. Record 1 of node b is forged so that
// no CRC-32C shows it: what is added is a multiple of its polynomial.
func TestTheReplicasOfALogAreComparedWithItsLeader(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p, _, _ := dev(t, data)
	p.must("", "log", "create", "orders", "--replicas", "3")
	p.must("zero\none, as it was appended\ntwo\n", "append", "orders")
	p.must("", "cluster", "status", "--wait-healthy")
	require.Equal(t, terminal.ExitOK, p.terminate())
	for path, content := range filesIn(t, filepath.Join(data, "b", "logs")) {
		if at := strings.Index(content, "one, as it was"); at >= 0 && filepath.Ext(path) == ".seg" {
			forged := []byte(content)
			for i, b := range []byte{0xf1, 0x76, 0xec, 0x05, 0x01} {
				forged[at+i] ^= b
			}
			require.NoError(t, os.WriteFile(path, forged, 0o600))
		}
	}
	p, nodes, _ := dev(t, data)
	p.must("", "cluster", "status", "--wait-healthy")
	p.mustReach("cluster", "transfer-leader", "orders", "--to", "a")
	for _, n := range nodes {
		p.grpc = n.GRPC
		o := p.run(nil, "log", "diff", "orders")
		require.Equal(t, terminal.ExitFailed, o.code)
		require.Contains(t, o.out, "orders@a and orders@b differ first at offset 1: another value\n", "from node %s: %s", n.Node, o.err)
		require.Contains(t, o.out, "orders@a and orders@c are equal: records [0, 3)", "from node %s", n.Node)
	}
}

// Records that were batched anew are the same.
func TestLogsThatAreBatchedOtherwiseAreComparedByTheirRecords(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.appendBatches("orders", 100, 7, -1)
	p.appendBatches("copy", 100, 5, -1)
	require.Equal(t, "orders and copy have the same records [0, 100), from offset 0 on in other batches\n", p.must("", "log", "diff", "orders", "copy"))
	p.must("more\n", "append", "copy")
	require.Contains(t, p.must("", "log", "diff", "orders", "copy"), "the same records [0, 100)", "what both have")
}

// filesIn are the files below a directory, with their contents.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	}))
	return files
}

// The directory of a stopped node, and a copy of it, are compared by their files alone.
func TestALogIsComparedWithWhatADirectoryHas(t *testing.T) {
	t.Parallel()
	const records, another = 3500, 1234
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	p := startNode(t, data, "--segment-size", "64KiB")
	p.appendBatches("orders", records, 7, -1)
	p.appendBatches("same", records, 7, -1)
	p.appendBatches("other", records, 7, another)
	var info struct{ ID int }
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "info", "orders", "--json")), &info))
	var at struct{ Digest string }
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "digest", "orders", "--json")), &at))

	o := p.run(nil, "log", "diff", "orders", "orders@"+data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "a node is running on this directory")
	require.Contains(t, o.err, "orders@NODE")

	require.Equal(t, 0, p.terminate())
	before := filesIn(t, data)
	require.NoError(t, os.CopyFS(backup, os.DirFS(data)))
	equal := func(a, b string) string {
		return fmt.Sprintf("%s and %s are equal: records [0, %d), digest %s\n", a, b, records, at.Digest)
	}
	a, b := "orders@"+data, "same@"+backup
	require.Equal(t, equal(a, b), p.must("", "log", "diff", a, b))
	o = p.run(nil, "log", "digest", a)
	require.Equal(t, fmt.Sprintf("%s  %s at %d: records [0, %d) in %d batches\n", at.Digest, a, records, records, records/7), o.out, o.err)
	prove := func(log string) outcome {
		return p.run(nil, "log", "prove", log, "--offset", fmt.Sprint(another), "--at", fmt.Sprint(records), "--digest", at.Digest)
	}
	o = prove(a)
	require.Equal(t, fmt.Sprintf("record %d\n", another), o.out, o.err)
	o = prove("other@" + data)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "the proof does not hold")
	replicas, err := filepath.Glob(filepath.Join(data, "logs", fmt.Sprint(info.ID), "*"))
	require.NoError(t, err)
	require.Len(t, replicas, 1)
	segments, err := filepath.Glob(filepath.Join(replicas[0], "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 3)
	b = "orders@" + replicas[0]
	require.Equal(t, equal(a, b), p.must("", "log", "diff", a, b), "the directory of one replica")

	o = p.run(nil, "log", "diff", a, "other@"+backup, "--json")
	require.Equal(t, terminal.ExitFailed, o.code, o.err)
	var found difference
	require.NoError(t, json.Unmarshal([]byte(o.out), &found), o.out)
	require.False(t, found.Equal)
	require.EqualValues(t, another, found.Offset)
	require.Equal(t, "another value", found.Detail)
	require.LessOrEqual(t, found.Exchanges, 16)
	require.Equal(t, before, filesIn(t, data), "nothing is changed")

	for where, reason := range map[string]string{
		"others@" + data:           `has no log "others"`,
		"orders@" + t.TempDir():    "has no log",
		"orders@" + data + "/none": "no such file",
	} {
		o = p.run(nil, "log", "diff", a, where)
		require.Equal(t, terminal.ExitFailed, o.code)
		require.Contains(t, o.err, reason)
	}
	o = p.run(nil, "log", "diff", a)
	require.Contains(t, o.err, "name a copy")

	p = startNode(t, data, "--segment-size", "64KiB")
	p.must("more\n", "append", "orders")
	p.must("", "log", "trim", "orders", "--before", "1000")
	p.must("", "log", "trim", "other", "--before", "2000")
	b = "orders@" + backup
	require.Equal(t, equal("orders", b), p.must("", "log", "diff", "orders", b), "a backup that is shorter, of a log that was trimmed")
	o = p.run(nil, "log", "diff", "other", b)
	require.Equal(t, fmt.Sprintf("other and %s differ below offset 2000, where one of them starts\n", b), o.out)
	require.NoError(t, p.command.Process.Kill())
	p.wait()
	require.Contains(t, p.must("", "log", "diff", a, b), "are equal: records [0, 3500)", "of a node that was killed")
}

// A backup of records has batches of its own: what it has is compared one by one.
func TestALogIsComparedWithABackupOfItsRecords(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.appendBatches("orders", 500, 7, -1)
	p.appendBatches("other", 500, 7, 321)
	dir := t.TempDir()
	whole, part := filepath.Join(dir, "orders-0.raw"), filepath.Join(dir, "orders-1.raw")
	require.NoError(t, os.WriteFile(whole, []byte(p.must("", "read", "orders", "-o", "raw")), 0o600))
	require.NoError(t, os.WriteFile(part, []byte(p.must("", "read", "orders", "-o", "raw", "--from", "123")), 0o600))
	same := func(a, b string, from int) {
		t.Helper()
		require.Equal(t, fmt.Sprintf("%s and %s have the same records [%d, 500), from offset %d on in other batches\n", a, b, from, from), p.must("", "log", "diff", a, b))
	}
	same("orders", "orders@"+whole, 0)
	same("orders", "orders@"+part, 123)
	same("orders@"+whole, "orders@"+part, 123)
	o := p.run(nil, "log", "diff", "other", "orders@"+whole)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.out, "differ first at offset 321: another value")
	p.must("more\n", "append", "orders")
	same("orders", "orders@"+whole, 0)
	p.must("", "log", "trim", "orders", "--before", "200")
	same("orders", "orders@"+whole, 200)

	require.NoError(t, os.Truncate(part, 5000))
	o = p.run(nil, "log", "diff", "orders", "orders@"+part)
	require.Contains(t, o.err, "ends in the middle of the batch at byte 0")
	flipByte(t, whole, 5000)
	o = p.run(nil, "log", "diff", "orders", "orders@"+whole)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "batch at byte 0")
	require.NoError(t, os.WriteFile(part, bytes.Repeat([]byte("some text\n"), 100), 0o600))
	o = p.run(nil, "log", "diff", "orders", "orders@"+part)
	require.Contains(t, o.err, "has no batch at byte 0")
}
