package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// Command runs a command of the program against all nodes and returns what it
// printed. It must succeed.
func (c *Cluster) Command(args ...string) string {
	c.t.Helper()
	ctx, cancel := withPatience()
	defer cancel()
	out, err := c.run(ctx, slices.Concat(args, []string{"--server", strings.Join(c.Addresses(), ",")}, c.shown("user-"+user))...)
	require.NoError(c.t, err)
	return out
}

// run is for commands that may fail.
func (c *Cluster) run(ctx context.Context, args ...string) (string, error) {
	runtime.LockOSThread() // see launch
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, c.program, args...)
	command.Dir = c.home
	command.Env = append(os.Environ(), "HOME="+c.home)
	command.SysProcAttr = attributes()
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("strandline %s: %w: %s%s", strings.Join(args, " "), err, out.String(), stderr.String())
	}
	return out.String(), nil
}
