package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cluster is one node, or three, each a process.
type cluster struct {
	*testing.T
	bootstrap string // Kafka addresses, separated by commas
	grpc      string
	nodes     int
	processes []*exec.Cmd // by node

	// Where ports are encrypted: the folder of certificates, and what our own program
	// needs to connect.
	certificates string
	flags        []string
}

var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "strandline-interop")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "strandline")
	command := exec.Command("go", "build", "-o", path, "./cmd/strandline")
	command.Dir = ".."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// onClusters runs a test on one node and on three.
func onClusters(t *testing.T, f func(c *cluster)) {
	t.Run("one node", func(t *testing.T) { f(start(t, 1)) })
	t.Run("three nodes", func(t *testing.T) { f(start(t, 3)) })
}

func start(t *testing.T, nodes int) *cluster {
	t.Helper()
	return startWith(t, nodes, func(int) []string { return nil })
}

// kafkaAddress is where the Kafka port of a node of so many is.
func kafkaAddress(nodes, i int) string { return fmt.Sprintf("127.5.%d.%d:19092", 100+nodes, i) }

// startWith starts nodes with more arguments for each, which are numbered from 1.
func startWith(t *testing.T, nodes int, more func(i int) []string) *cluster {
	t.Helper()
	return startAt(t, fmt.Sprintf("127.5.%d.%%d", 100+nodes), nodes, more)
}

// startAt is startWith at other hosts, given as a format of a node's number.
func startAt(t *testing.T, hosts string, nodes int, more func(i int) []string) *cluster {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	c := &cluster{T: t, nodes: nodes}
	// A cluster has to know its addresses before it starts.
	address := func(i, port int) string { return fmt.Sprintf(hosts+":%d", i, port) }
	var peers, kafka []string
	for i := 1; i <= nodes; i++ {
		peers = append(peers, fmt.Sprintf("n%d=%s", i, address(i, 17171)))
		kafka = append(kafka, address(i, 19092))
	}
	c.bootstrap, c.grpc = strings.Join(kafka, ","), address(1, 17171)
	for i := 1; i <= nodes; i++ {
		args := []string{"serve", "--json", "--data", t.TempDir(), "--grpc", address(i, 17171), "--http", address(i, 17271), "--kafka", address(i, 19092)}
		args = append(args, more(i)...)
		if nodes > 1 {
			args = append(args, "--node-name", fmt.Sprintf("n%d", i), "--peers", strings.Join(peers, ","))
		}
		c.run(path, args)
	}
	if nodes > 1 {
		c.strandline("", "cluster", "init")
	}
	return c
}

// run starts a node and waits until it has announced itself.
func (c *cluster) run(path string, args []string) {
	c.Helper()
	command := exec.Command(path, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	require.NoError(c, err)
	require.NoError(c, command.Start())
	c.processes = append(c.processes, command)
	c.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if c.Failed() {
			c.Logf("%v said:\n%s", args, stderr.String())
		}
	})
	_, err = bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(c, err, "the server ended before it announced itself")
}

// strandline runs our own program against the cluster, over gRPC.
func (c *cluster) strandline(in string, args ...string) string {
	c.Helper()
	path, err := program()
	require.NoError(c, err)
	command := exec.Command(path, slices.Concat(args, []string{"--server", c.grpc}, c.flags)...)
	command.Stdin = strings.NewReader(in)
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && asExit(err, &exit) {
		c.Logf("%v: %s", args, exit.Stderr)
	}
	require.NoError(c, err, "%v", args)
	return string(out)
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok
}

// read reads a log over gRPC, from its start.
func (c *cluster) read(log string) []record {
	c.Helper()
	var records []record
	lines := bufio.NewScanner(strings.NewReader(c.strandline("", "read", log, "--from-start", "--json")))
	for lines.Scan() {
		var r record
		require.NoError(c, json.Unmarshal(lines.Bytes(), &r))
		records = append(records, r)
	}
	return records
}

type record struct {
	Offset int64  `json:"offset"`
	Value  string `json:"value"`
}

// codecs are tried in this order by every client.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

const (
	// written is how many records a client finds in its log, and perCodec how
	// many it adds with each codec.
	written  = 3
	perCodec = 20
)

// prepare makes the log that a client works with, with what gRPC wrote.
func (c *cluster) prepare(log string) {
	c.Helper()
	c.strandline("", "log", "create", log)
	c.strandline("grpc-0\ngrpc-1\ngrpc-2\n", "append", log)
}

// expected is the log that a client leaves behind that wrote with these codecs.
func expected(codecs []string) []record {
	var want []record
	add := func(value string) { want = append(want, record{int64(len(want)), value}) }
	for i := range written {
		add(fmt.Sprintf("grpc-%d", i))
	}
	for _, codec := range codecs {
		for i := range perCodec {
			add(fmt.Sprintf("%s-%d", codec, i))
		}
	}
	return want
}

// between waits for the clock, and returns a time in ms that is after every
// record so far and not after any that is yet to be made.
func between() int64 {
	at := time.Now().UnixMilli() + 1
	time.Sleep(time.Until(time.UnixMilli(at)))
	return at
}

// checkWritten compares what a client left in its log, read through both ports.
// The client may have trimmed.
func (c *cluster) checkWritten(log string, codecs []string) {
	c.Helper()
	want := expected(codecs)
	got := c.read(log)
	require.NotEmpty(c, got)
	require.Equal(c, want[got[0].Offset:], got, "read over gRPC")
	require.Equal(c, got, c.readByFranz(log, got[0].Offset, len(got)), "read by franz-go")
}

// tool finds a program, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed, so this client is not tried", name)
	}
	return path
}

// cached makes a folder for an installation that outlives the test run, with
// what install puts there, beside the manifest, the first time and whenever the
// manifest has changed.
func cached(t *testing.T, manifest string, install func(dir string)) string {
	t.Helper()
	root, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(root, "strandline-interop", filepath.Dir(manifest))
	wanted, err := os.ReadFile(manifest)
	require.NoError(t, err)
	installed := filepath.Join(dir, "installed")
	if found, err := os.ReadFile(installed); err == nil && bytes.Equal(found, wanted) {
		return dir
	}
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(manifest)), wanted, 0o644))
	install(dir)
	require.NoError(t, os.WriteFile(installed, wanted, 0o644))
	return dir
}

// must runs a command that has to succeed within a time, and returns what it
// printed.
func must(t *testing.T, limit time.Duration, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	stop := time.AfterFunc(limit, func() { _ = command.Process.Kill() })
	defer stop.Stop()
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}
