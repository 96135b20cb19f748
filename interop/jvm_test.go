package interop

import (
	"bytes"
	"fmt"
	"maps"
	"net"
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

// suiteTime bounds what a program that runs beside a test may take until it has done
// what the test waits for. A Java machine alone takes many seconds to start where
// others want the processor.
const suiteTime = 3 * time.Minute

// jvm is a Java program that runs until the test ends or stop is called.
type jvm struct {
	*testing.T
	command *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	said    bytes.Buffer
}

// begin runs a class of Kafka's jars with arguments.
func begin(t *testing.T, class string, args ...string) *jvm {
	t.Helper()
	java, dir := jars(t)
	j := &jvm{T: t, ended: make(chan struct{})}
	j.command = exec.Command(java, append([]string{"-Xmx512m", "-cp", "lib/*", class}, args...)...)
	j.command.Dir = dir
	j.command.Stdout, j.command.Stderr = j, j
	require.NoError(t, j.command.Start())
	go func() {
		defer close(j.ended)
		_ = j.command.Wait()
	}()
	t.Cleanup(func() {
		j.stop()
		if t.Failed() {
			text := j.output()
			t.Logf("%s said:\n%s", class, text[max(0, len(text)-20_000):])
		}
	})
	return j
}

func (j *jvm) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.said.Write(p)
}

func (j *jvm) output() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.said.String()
}

// stop ends the program as an operator would.
func (j *jvm) stop() {
	_ = j.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-j.ended:
	case <-time.After(30 * time.Second):
		_ = j.command.Process.Kill()
		<-j.ended
	}
}

// until waits for what the program brings about.
func (j *jvm) until(what string, yes func() bool) {
	j.Helper()
	for deadline := time.Now().Add(suiteTime); !yes(); time.Sleep(200 * time.Millisecond) {
		select {
		case <-j.ended:
			require.FailNow(j, "the program has ended before "+what)
		default:
		}
		require.True(j, time.Now().Before(deadline), what)
	}
}

// properties writes a file of settings, a name and a value each.
func properties(t *testing.T, settings map[string]string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, settings[name])
	}
	path := filepath.Join(t.TempDir(), "settings.properties")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	return path
}

// freePort is one that nobody listens at.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// addLines appends numbered lines to a file.
func addLines(t *testing.T, path string, from, until int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer f.Close()
	for i := from; i < until; i++ {
		_, err := fmt.Fprintf(f, "line %d\n", i)
		require.NoError(t, err)
	}
}

// sameLines reports whether a file has the numbered lines up to n, each once and in
// order.
func sameLines(t *testing.T, path string, n int) func() bool {
	want := ""
	for i := range n {
		want += fmt.Sprintf("line %d\n", i)
	}
	return func() bool {
		got, err := os.ReadFile(path)
		require.True(t, err == nil || os.IsNotExist(err), "%v", err)
		return string(got) == want
	}
}
