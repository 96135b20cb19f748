package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// unreachable is how a command ends that no node took or answered; it may be run again.
const unreachable = 4

// Command runs a command of the program against all nodes and returns what it
// printed. It must succeed; while no node takes or answers it, it is run again.
func (c *Cluster) Command(args ...string) string {
	c.t.Helper()
	ctx, cancel := WithPatience()
	defer cancel()
	for {
		out, err := c.Run(ctx, slices.Concat(args, []string{"--server", strings.Join(c.Addresses(), ",")}, c.shown("user-"+user))...)
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == unreachable && ctx.Err() == nil {
			c.t.Logf("again: %v", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		require.NoError(c.t, err)
		return out
	}
}

// Run runs a command of the program and returns what it prints.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := c.RunBy(ctx, nil, &out, args...)
	return out.String(), err
}

// RunBy runs a command of the program, which by starts if it is not empty (nice -n 19), and
// writes what it prints to out.
func (c *Cluster) RunBy(ctx context.Context, by []string, out io.Writer, args ...string) error {
	runtime.LockOSThread() // see launch
	defer runtime.UnlockOSThread()
	words := append(append(slices.Clone(by), c.program), args...)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir = c.home
	command.Env = append(os.Environ(), "HOME="+c.home)
	command.SysProcAttr = attributes()
	var stderr bytes.Buffer
	command.Stdout, command.Stderr = out, &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("strandline %s: %w: %v%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return nil
}
