package process

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestAStoppedProcessIsGone(t *testing.T) {
	p, err := Start("sleeper", filepath.Join(t.TempDir(), "out"), exec.Command("sleep", "1000"))
	require.NoError(t, err)
	p.Stop(time.Minute)
	p.Stop(time.Minute)
	<-p.Ended()
	require.ErrorIs(t, syscall.Kill(p.command.Process.Pid, 0), syscall.ESRCH)
}

func TestAProcessThatDoesNotListenIsKilled(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	command := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do read x; done`)
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	p, err := Start("deaf", out, command)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return lastLines(out, 1) == "ready" }, time.Minute, time.Millisecond)
	p.Stop(time.Millisecond)
	require.ErrorContains(t, p.wait, "killed")
}

func TestAProcessThatEndsByItselfSaysWhy(t *testing.T) {
	p, err := Start("broken", filepath.Join(t.TempDir(), "out"), exec.Command("sh", "-c", "echo no disk >&2; exit 3"))
	require.NoError(t, err)
	<-p.Ended()
	require.ErrorContains(t, p.Why(), "exit status 3")
	require.ErrorContains(t, p.Why(), "no disk")
}

func TestFreePortsDiffer(t *testing.T) {
	addresses, err := FreePorts("127.0.0.1", 3)
	require.NoError(t, err)
	require.Len(t, addresses, 3)
	require.NotEqual(t, addresses[0], addresses[1])
}
