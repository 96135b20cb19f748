// Package drill runs the example databases as processes on a real cluster for tests that kill them.
package drill

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/cluster"
)

// Cluster starts three nodes, with the program of the main module.
func Cluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "strandline")
	build(t, "../../..", "strandline.dev/cmd/strandline", path)
	return cluster.Start(t, cluster.Options{Nodes: 3, Direct: true, Program: path})
}

// Build compiles the program of the current folder and returns its path.
func Build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	build(t, "", ".", path)
	return path
}

// Run starts the script of the current folder that starts a cluster and replicas, with nodes on a host of this test. They
// end with the test.
func Run(t *testing.T, host string, environ ...string) *Process {
	t.Helper()
	p := &Process{t: t, path: "./run", args: []string{t.TempDir()}, environ: append(environ, "NODES="+host+":7171"), stderr: &locked{}}
	p.Restart()
	t.Cleanup(func() {
		_ = p.stdin.Close() // ends a shell
		_ = p.command.Process.Signal(syscall.SIGTERM)
		_ = p.command.Wait()
		if t.Failed() {
			t.Logf("the replicas said:\n%s", p.stderr)
		}
	})
	return p
}

// Host returns a host on this machine that no other process of tests uses.
func Host() string { return fmt.Sprintf("127.83.%d.%d", os.Getpid()/250%250, 1+os.Getpid()%250) }

// Blocks returns the blocks of code of a kind in the README of the current folder.
func Blocks(t *testing.T, kind string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(found[1]))
	}
	require.NotEmpty(t, blocks)
	return blocks
}

// build compiles a program. The go command keeps what `go run` has linked, for the next run.
func build(t *testing.T, folder, program, path string) {
	t.Helper()
	command := exec.Command("go", "run", "-exec", "cp", program, path)
	command.Dir = folder
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Process is a program that is started, killed and started again. Its methods are for one goroutine, except Shoot.
type Process struct {
	t       *testing.T
	mu      sync.Mutex
	command *exec.Cmd // guarded by mu
	path    string
	args    []string
	environ []string
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  *locked
}

// Start starts a program, which is killed at the end of the test.
func Start(t *testing.T, path string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, path: path, args: args, stderr: &locked{}}
	p.Restart()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%v said:\n%s", args, p.stderr)
		}
	})
	return p
}

// Restart starts the program again after Kill.
func (p *Process) Restart() {
	p.t.Helper()
	command := exec.Command(p.path, p.args...)
	command.Env = append(os.Environ(), p.environ...)
	command.Stderr = p.stderr
	stdin, err := command.StdinPipe()
	require.NoError(p.t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(p.t, err)
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.command = command
	require.NoError(p.t, command.Start())
}

// Shoot ends the program with SIGKILL, and does not wait for that.
func (p *Process) Shoot() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.command.Process.Kill()
}

// Kill ends the program with SIGKILL.
func (p *Process) Kill() {
	p.Shoot()
	_ = p.command.Wait()
}

// Line returns the next line of the program, and an error if it has ended.
func (p *Process) Line() (string, error) {
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// Send gives the program a line, and does not wait for what it does.
func (p *Process) Send(line string) error {
	_, err := fmt.Fprintln(p.stdin, line)
	return err
}

// locked is a buffer for the standard error of several lives of a process.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
