package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	"strandline.dev/internal/cli/terminal"
)

// The README's shell blocks are run as they stand, line after line, as a newcomer would, in a
// folder in which cmd/strandline is what it is in the tree. Only the addresses differ, by
// environment, so that the test does not meet a server of yours.
func TestTheREADMEsCommandsWork(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	blocks := shellBlocks(t, "../../README.md")
	require.Equal(t, "go run ./cmd/strandline dev\n", blocks[0], "the first command starts a cluster")

	tree := treeOfCommand(t, "../..")
	address, web := freeAddress(t), freeAddress(t)
	environ := append(os.Environ(), "STRANDLINE_DEV_GRPC="+address, "STRANDLINE_DEV_HTTP="+web, "STRANDLINE_SERVER="+address)

	var said lockedBuffer
	server := shell(tree, environ, blocks[0])
	server.Stdout, server.Stderr = &said, &said
	// `go run` does not pass a signal on, so the whole group gets it.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGTERM)
		_ = server.Wait()
	})
	// Not before all three are a cluster: a person, too, continues only then.
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "Ctrl-C ends all three.") },
		5*time.Minute, 50*time.Millisecond, "the cluster did not form")

	for _, block := range blocks[1:] {
		for line := range strings.Lines(block) {
			runLine(t, tree, environ, line)
		}
	}
	copied, err := shell(tree, environ, "./strandline read copy --from-start").Output()
	require.NoError(t, err)
	require.Equal(t, "third\n", string(copied), "the copy holds what the trim left")
	runProgram(t, environ, address)
}

// runProgram runs the README's program as a module of its own beside a checkout, by the README's
// commands. No module is downloaded: those of this one are there since its build.
func runProgram(t *testing.T, environ []string, address string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	body := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
	commands := regexp.MustCompile("`(go mod edit [^`]*)`").FindSubmatch(text)
	require.NotNil(t, body)
	require.NotNil(t, commands)
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)
	home := t.TempDir()
	require.NoError(t, os.Symlink(checkout, filepath.Join(home, "strandline")))
	dir := filepath.Join(home, "program")
	require.NoError(t, os.Mkdir(dir, 0o700))
	source := "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"log\"\n\n\t\"strandline.dev/client\"\n)\n\nfunc main() {\n" +
		strings.ReplaceAll(string(body[1]), "127.0.0.1:7171", address) + "}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	environ = append(environ, "GOSUMDB=off", "GOPROXY=off")
	// -e: modules may be missing which only tests of others need.
	added := strings.Replace(string(commands[1]), "go mod tidy", "go mod tidy -e", 1)
	for _, command := range []string{"go mod init example.com/program", added, "go build -o program ."} {
		out, err := shell(dir, environ, command).CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
	}
	program := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
	printed, err := program.StdoutPipe()
	require.NoError(t, err)
	var said lockedBuffer
	program.Stderr = &said
	require.NoError(t, program.Start())
	defer func() { // it follows the log without end
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	first, second := 0, 0
	_, err = fmt.Fscanf(printed, "%d: paid\n%d: shipped\n", &first, &second)
	require.NoError(t, err, said.String())
	require.Equal(t, first+1, second)
}

// runLine runs a command, and again while the cluster does not take it: so do the nodes for a
// moment when they have not heard of each other lately.
func runLine(t *testing.T, dir string, environ []string, line string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		c := shell(dir, environ, line)
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() == terminal.ExitUnreachable && time.Now().Before(end) {
			continue
		}
		require.NoError(t, err, "%s%s", line, out)
		t.Logf("%s%s", line, out)
		return
	}
}

// lockedBuffer is written by a process and read meanwhile.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

func shellBlocks(t *testing.T, readme string) []string {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	var blocks []string
	for _, found := range shellBlock.FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(found[1]))
	}
	require.Greater(t, len(blocks), 1)
	return blocks
}

func shell(dir string, environ []string, script string) *exec.Cmd {
	c := exec.Command("bash", "-euo", "pipefail", "-c", script)
	c.Dir, c.Env = dir, environ
	return c
}

// treeOfCommand makes a folder with the same cmd/strandline and go.mod, whose packages are those of
// the tree, so that running the README leaves nothing in the tree. In a copy of the whole tree the
// go command would compile all packages once more: it keeps what it compiled by folder.
func treeOfCommand(t *testing.T, from string) string {
	t.Helper()
	from, err := filepath.Abs(from)
	require.NoError(t, err)
	to := t.TempDir()
	for _, name := range []string{"cmd", "go.sum"} {
		out, err := exec.Command("cp", "-r", filepath.Join(from, name), to).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	text, err := os.ReadFile(filepath.Join(from, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	path := mod.Module.Mod.Path
	require.NoError(t, mod.AddModuleStmt(path+"/readme"))
	require.NoError(t, mod.AddRequire(path, "v0.0.0"))
	require.NoError(t, mod.AddReplace(path, "", from, ""))
	text, err = mod.Format()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, "go.mod"), text, 0o600))
	return to
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", ownPort())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}
