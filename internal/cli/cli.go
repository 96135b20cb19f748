// Package cli is the command line of Strandline: the root command and the tests of the
// whole. A family of commands is a folder, a command is a file: it parses its flags and
// then calls; what it calls lives elsewhere. What all share is in terminal.
package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
)

// Main executes the command line of this process and returns its exit code. Bench makes the command
// bench: a program has the benchmarks, or it has BenchBeside.
func Main(args []string, bench func(*terminal.Terminal) *cobra.Command) int {
	return run(&terminal.Terminal{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Args: args, Environ: os.Environ(),
	}, bench)
}

// run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM ends the command's context; a second one kills.
func run(c *terminal.Terminal, bench func(*terminal.Terminal) *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot(c, bench)
	root.SetArgs(c.Args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return terminal.ExitOK
	}
	return c.Fail(ctx, command, err)
}
