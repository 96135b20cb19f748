// Package cli is the command line of Strandline: the root command and the tests of the
// whole. A family of commands is a folder, a command is a file: it parses its flags and
// then calls; what it calls lives elsewhere. What all share is in terminal.
package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"strandline.dev/internal/cli/terminal"
)

// Main executes the command line of this process and returns its exit code.
func Main(args []string) int {
	return run(&terminal.Terminal{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Environ: os.Environ(),
	}, args)
}

// run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM ends the command's context; a second one kills.
func run(c *terminal.Terminal, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot(c)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return terminal.ExitOK
	}
	return c.Fail(ctx, command, err)
}
