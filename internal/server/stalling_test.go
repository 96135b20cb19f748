package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/vfs"
	"strandline.dev/test/disk/syncdisk"
	"strandline.dev/test/resident"
)

// memoryOfServer is what serveStalling may use.
const memoryOfServer = 512 << 20

// stallingServerVariable makes the test's binary run serveStalling, on a directory.
const stallingServerVariable = "STRANDLINE_TEST_STALLING_SERVER"

// serveStalling is a process of its own, so that what it holds is not mixed up with
// what its clients do. It is what `serve --memory 512MiB` runs, on a disk that finishes
// no write of a log but the catalog between "stall" and "resume" on standard input. It
// looks what it can give back more often, so that the test waits less for it.
func serveStalling(directory string) error {
	budget.Limit(memoryOfServer)
	debug.SetGCPercent(300)
	runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	go budget.Release(context.Background(), memoryOfServer, budget.LookEvery/10)
	disk := &syncdisk.Disk{FS: vfs.OS(), Only: func(name string) bool { return !strings.Contains(filepath.ToSlash(name), "/logs/0/") }}
	resume := func() {}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s, err := Start(Options{GRPC: l, Node: settings.Options{
		DataDir: directory, FormAlone: true, Memory: memoryOfServer, Disk: disk, Logger: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for in := bufio.NewReader(os.Stdin); ; {
		command, err := in.ReadString('\n')
		if err != nil {
			return s.Close()
		}
		switch command {
		case "stall\n":
			resume = disk.Hold()
		case "resume\n":
			resume()
		}
		parts := s.node.Memory()
		fmt.Println(parts.Appends.Used(), parts.Inflow.Used(), parts.Used())
	}
}

// stallingProcess runs serveStalling.
type stallingProcess struct {
	*testing.T
	command *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
	address string
}

func startStalling(t *testing.T) *stallingProcess {
	t.Helper()
	p := &stallingProcess{T: t, command: exec.Command(os.Args[0])}
	p.command.Env = append(os.Environ(), stallingServerVariable+"="+t.TempDir())
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	require.NoError(t, err)
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		require.NoError(t, p.command.Wait())
	})
	p.address = p.line()
	return p
}

func (p *stallingProcess) line() string {
	p.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p, err)
	return strings.TrimSpace(line)
}

// used is what is taken of the budget, after a command.
func (p *stallingProcess) used(command string) (appends, inflow, all int64) {
	p.Helper()
	_, err := fmt.Fprintln(p.in, command)
	require.NoError(p, err)
	_, err = fmt.Sscan(p.line(), &appends, &inflow, &all)
	require.NoError(p, err)
	return appends, inflow, all
}

// resident is what the process has in memory, now and at the most.
func (p *stallingProcess) resident() (now, most int64) {
	p.Helper()
	return resident.Of(p, p.command.Process.Pid)
}

// await waits until done, for as long as the process keeps within its memory.
func (p *stallingProcess) await(what string, most int64, patience time.Duration, done func() bool) {
	p.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		_, peak := p.resident()
		require.Less(p, peak, most, what)
		require.True(p, time.Now().Before(end), what)
	}
}
