package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
)

// BenchBeside makes the command bench of a program without benchmarks. It runs strandline-bench, the
// same program with them, in its own place and with its own command line. This keeps Kafka clients and
// what they need out of the server.
func BenchBeside(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "bench",
		Short: "Measure a running server, other systems beside it, and this machine's own limits",
		Long: `Measure a running server, other systems beside it, and this machine's own limits.

The benchmarks use client libraries of other systems, so they are in a program of their
own, strandline-bench. This command runs it with the same command line, from the
directory of this program or else from PATH.`,
		Example: "  strandline bench --help\n  strandline bench appends --connections 1,128 --with-limits",
		// The other program reads flags, settings and contexts.
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_ = becomeBench(c) // writes the completions; without it there are none
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(*cobra.Command, []string) error { return becomeBench(c) },
	}
}

// benchProgram is the file name of the program that has the benchmarks.
const benchProgram = "strandline-bench"

// becomeBench replaces this process by strandline-bench with the same command line. It returns only
// if it cannot.
func becomeBench(c *terminal.Terminal) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(own), benchProgram)
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		if program, err = exec.LookPath(benchProgram); err != nil {
			return terminal.Hinted(fmt.Errorf("%s is neither in %s nor in PATH", benchProgram, filepath.Dir(own)),
				"install the package "+benchProgram+", or in a checkout: go run ./cmd/"+benchProgram+" bench")
		}
	}
	if err := syscall.Exec(program, append([]string{program}, c.Args...), c.Environ); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}
