package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/test/cluster"
)

// programDirectory holds the program that buildProgram makes.
var programDirectory string

func TestMain(m *testing.M) {
	// Most of a test's time is that of processes which begin and wait for each other.
	_ = flag.Set("test.parallel", "4")
	var err error
	if programDirectory, err = os.MkdirTemp("", "strandline-test-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programDirectory)
	os.Exit(code)
}

// buildProgram builds this program with the benchmarks once, for all tests that need a process. The go command keeps
// what `go run` has linked, so that test binaries share it; `go build` links again.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDirectory, "strandline")
	out, err := exec.Command("go", "run", "-exec", "cp", "strandline.dev/cmd/strandline-bench", path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// process is a node in a process of its own, on ports that were free.
type process struct {
	t       *testing.T
	data    string
	grpc    string
	http    string
	kafka   string
	command *exec.Cmd
	stderr  *bytes.Buffer
}

// ownPort is a port of a host that its caller alone uses, so that nobody else takes it while
// no node listens on it.
func ownPort() string {
	host := hosts.Add(1)
	return fmt.Sprintf("127.33.%d.%d:0", os.Getpid()%250, 1+host%250)
}

var hosts atomic.Int64

// startNode starts a node and waits until it has announced itself.
func startNode(t *testing.T, data string, flags ...string) *process {
	t.Helper()
	return startNodeWith(t, data, nil, flags...)
}

// startNodeWith is startNode with more variables of the environment.
func startNodeWith(t *testing.T, data string, environ []string, flags ...string) *process {
	t.Helper()
	p := &process{t: t, data: data, stderr: &bytes.Buffer{}}
	args := append([]string{"serve", "--json", "--data", data, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0"}, flags...)
	p.command = program(t, args...)
	p.command.Stderr = p.stderr
	p.command.Env = append(p.command.Env, environ...)
	stdout, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() {
		if p.command.ProcessState == nil {
			_ = p.command.Process.Kill()
			_ = p.command.Wait()
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", p.stderr)
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err, "the server ended before it announced itself: %s", p.stderr)
	var announced struct{ GRPC, HTTP, Kafka string }
	require.NoError(t, json.Unmarshal(line, &announced))
	p.grpc, p.http, p.kafka = announced.GRPC, announced.HTTP, announced.Kafka
	return p
}

// program is a command line of the built binary, with a clean environment.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	skipUnderRace(t)
	path, err := buildProgram()
	require.NoError(t, err)
	command := exec.Command(path, args...)
	command.Env = []string{"HOME=" + t.TempDir()}
	command.Dir = t.TempDir()
	return command
}

// skipUnderRace ends a test of processes under the race detector, which sees nothing of them: they
// are built without it, and the same test runs without it.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if cluster.RaceEnabled {
		t.Skip("its processes are not built with the race detector: go test without -race runs it")
	}
}

// run executes a client command against the node.
func (p *process) run(in io.Reader, args ...string) outcome {
	p.t.Helper()
	command := program(p.t, append(args, "--server", p.grpc)...)
	var out, err bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = in, &out, &err
	_ = command.Run()
	return outcome{command.ProcessState.ExitCode(), out.String(), err.String()}
}

// must is run for a command that has to succeed; it returns what it printed.
func (p *process) must(in string, args ...string) string {
	p.t.Helper()
	o := p.run(strings.NewReader(in), args...)
	require.Equal(p.t, terminal.ExitOK, o.code, "%v: %s", args, o.err)
	return o.out
}

// mustReach is must for a command that a cluster may not take yet, because its nodes have not heard
// of each other lately.
func (p *process) mustReach(args ...string) {
	p.t.Helper()
	var o outcome
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if o = p.run(nil, args...); o.code != terminal.ExitUnreachable {
			break
		}
	}
	require.Equal(p.t, terminal.ExitOK, o.code, "%v: %s", args, o.err)
}

// terminate asks the node to end, and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(syscall.SIGTERM))
	return p.wait()
}

func (p *process) wait() int {
	p.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = p.command.Process.Signal(syscall.SIGABRT) }) // shows where it hangs
	defer late.Stop()
	_ = p.command.Wait()
	return p.command.ProcessState.ExitCode()
}
