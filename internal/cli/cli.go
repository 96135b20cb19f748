// Package cli is the command line of Strandline. A command parses its flags and
// then calls; what it calls lives elsewhere. One command is one file.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main executes the command line of this process and returns its exit code.
func Main(args []string) int {
	return run(&cli{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		environ: os.Environ(),
	}, args)
}

// cli is what every command shares: the streams, the environment, and the
// flags that come before any command's own.
type cli struct {
	in       io.Reader
	out, err io.Writer
	environ  []string

	configFile string
	servers    []string
	insecure   bool
	json       bool
}

// run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM ends the command's context; a second one kills.
func run(c *cli, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot(c)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	f := describe(ctx, err, c.askedOf(command))
	f.print(c)
	return f.code
}
