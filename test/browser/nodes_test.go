package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the binary that is tested: STRANDLINE, or what is built of the tree.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("STRANDLINE"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(built, "strandline")
	command := exec.Command("go", "build", "-o", path, "./cmd/strandline")
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// built is a folder for the binary.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "strandline-browser"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// cluster is three nodes, a, b and c, each a process.
type cluster struct {
	*testing.T
	net   int // of the addresses
	data  string
	nodes map[string]*exec.Cmd
	token string // with which the test itself calls
}

var names = []string{"a", "b", "c"}

func (c *cluster) address(node string, port int) string {
	return fmt.Sprintf("127.7.%d.%d:%d", c.net, 1+strings.Index("abc", node), port)
}

// url is where a node serves the console.
func (c *cluster) url(node string) string { return "http://" + c.address(node, 17271) }

// start forms a cluster. Clusters of tests that run at the same time have different numbers.
func start(t *testing.T, number int) *cluster {
	t.Helper()
	c := &cluster{T: t, net: number, data: t.TempDir(), nodes: map[string]*exec.Cmd{}}
	for _, node := range names {
		c.run(node)
	}
	path, err := program()
	require.NoError(t, err)
	out, err := exec.Command(path, "cluster", "init", "--server", c.address("a", 17171)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	// Leaders stay on node a, whose console most tests look at.
	require.Eventually(t, func() bool {
		_, reason := c.call("a", "ClusterService/SetDefaultRule", object{"prefix": "", "rule": object{"leaderHomes": []string{"dc=fra"}}})
		return reason == ""
	}, waits, step)
	return c
}

// run starts a node and waits until it has announced itself.
func (c *cluster) run(node string) {
	c.Helper()
	path, err := program()
	require.NoError(c, err)
	var peers []string
	for _, n := range names {
		peers = append(peers, n+"="+c.address(n, 17171))
	}
	command := exec.Command(path, "serve", "--json", "--node-name", node, "--data", filepath.Join(c.data, node), "--kafka", c.address(node, 19092),
		"--grpc", c.address(node, 17171), "--http", c.address(node, 17271), "--peers", strings.Join(peers, ","), "--label", "dc="+map[string]string{"a": "fra", "b": "ams", "c": "par"}[node])
	said, err := os.OpenFile(filepath.Join(c.data, node+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(c, err)
	command.Stderr = said
	stdout, err := command.StdoutPipe()
	require.NoError(c, err)
	require.NoError(c, command.Start())
	c.nodes[node] = command
	c.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = said.Close()
		if text, err := os.ReadFile(said.Name()); err == nil && c.Failed() {
			_ = os.MkdirAll(shots(), 0o755)
			_ = os.WriteFile(filepath.Join(shots(), "failed-"+c.Name()+"-"+node+".log"), text, 0o644)
		}
	})
	_, err = bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(c, err, "node %s ended before it announced itself", node)
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
}

func (c *cluster) kill(node string) {
	require.NoError(c, c.nodes[node].Process.Kill())
	_ = c.nodes[node].Wait()
}

// object is JSON.
type object = map[string]any

// call calls a method at a node, and returns the answer, or the error's reason.
func (c *cluster) call(node, method string, request object) (answer object, reason string) {
	c.Helper()
	text, err := json.Marshal(request)
	require.NoError(c, err)
	q, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url(node)+"/strandline.v1."+method, bytes.NewReader(text))
	require.NoError(c, err)
	q.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	r, err := http.DefaultClient.Do(q)
	require.NoError(c, err)
	defer r.Body.Close()
	lines := json.NewDecoder(r.Body)
	require.NoError(c, lines.Decode(&answer))
	reason, _ = answer["reason"].(string)
	return answer, reason
}

// must is call where no error is expected.
func (c *cluster) must(node, method string, request object) object {
	c.Helper()
	answer, reason := c.call(node, method, request)
	require.Empty(c, reason, "%v", answer)
	return answer
}

// create creates a log, and waits until node a leads it.
func (c *cluster) create(log string) {
	c.Helper()
	c.must("a", "CatalogService/CreateLog", object{"name": log})
	c.isLed(log)
}

// isLed waits until node a leads a log.
func (c *cluster) isLed(log string) {
	c.Helper()
	require.Eventually(c, func() bool {
		_, reason := c.call("a", "SessionService/OpenSession", object{"log": log})
		return reason == ""
	}, waits, step)
}

// append appends records.
func (c *cluster) append(log string, n int) {
	c.Helper()
	var records []object
	for i := range n {
		value := fmt.Sprintf(`{"order": %d, "amount": %d.5, "currency": "EUR", "customer": {"id": "c-%d", "city": "Lisboa"}, "paid": %t}`, i, i*3, i%37, i%3 == 0)
		records = append(records, object{"key": []byte(fmt.Sprintf("eu/c-%d", i%37)), "value": []byte(value), "headers": []object{{"key": "region", "value": []byte("eu")}}})
	}
	c.must("a", "LogService/Append", object{"log": log, "records": records})
}
