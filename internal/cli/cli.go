// Package cli is the command line of Strandline: the root command and the tests of the
// whole. A family of commands is a folder, the commands about one thing are a file: a command parses its flags and
// then calls; what it calls lives elsewhere. What all share is in terminal.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/access"
	"strandline.dev/internal/cli/archives"
	"strandline.dev/internal/cli/certs"
	"strandline.dev/internal/cli/cluster"
	"strandline.dev/internal/cli/contexts"
	"strandline.dev/internal/cli/desired"
	"strandline.dev/internal/cli/groups"
	"strandline.dev/internal/cli/inspect"
	"strandline.dev/internal/cli/log"
	"strandline.dev/internal/cli/records"
	"strandline.dev/internal/cli/serve"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/cli/top"
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

const rootHelp = `Strandline is a replicated write-ahead log: append records, get offsets, and read
the records in one order that never changes.

  strandline dev                                  three nodes in one process, to try
  strandline serve                                a node on this machine
  strandline log create orders                    a log
  echo hello | strandline append orders           a record
  strandline read orders --from-start             all records

Every flag can also be set in a TOML file (--config) or in the environment. A flag
overrides the environment, and the environment overrides the file. --retention of
"strandline log create" is

  in the file         [log.create]
                      retention = "1m"
  in the environment  STRANDLINE_LOG_CREATE_RETENTION=1m

and --server, which every command has, is server in the file and STRANDLINE_SERVER in
the environment. An unknown name in either is an error. "strandline context" stores the
flags for reaching each of your clusters.
`

func newRoot(c *terminal.Terminal, bench func(*terminal.Terminal) *cobra.Command) *cobra.Command {
	root := terminal.Group(&cobra.Command{
		Use:           "strandline",
		Short:         "A replicated write-ahead log",
		Long:          rootHelp + "\n" + terminal.ExitCodeHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			return c.ApplySettings(command)
		},
	})
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)

	flags := root.PersistentFlags()
	flags.StringVar(&c.ConfigFile, "config", "", "TOML `file` with settings")
	flags.StringSliceVar(&c.Servers, "server", []string{terminal.DefaultGRPCAddress}, "gRPC `addresses` of the nodes, separated by commas")
	flags.StringVar(&c.Context, "context", "", "use the context with this `name` to reach the cluster (default the one in use)")
	flags.BoolVar(&c.Insecure, "insecure", false, "allow unencrypted connections beyond this machine")
	flags.StringVar(&c.Files.Authority, "tls-ca", "", "encrypt, and accept certificates of nodes from the authorities in this PEM `file` (default the system's, with --tls-cert)")
	flags.StringVar(&c.Files.Certificate, "tls-cert", "", "encrypt, and present the certificate in this PEM `file`; with serve, that of the node")
	flags.StringVar(&c.Files.Key, "tls-key", "", "the PEM `file` with the key of --tls-cert")
	flags.StringVar(&c.TokenFile, "token-file", "", "present the token in this `file`, from \"strandline token create\" (default "+terminal.TokenVariable+", if it is set)")
	flags.BoolVar(&c.JSON, "json", false, "write results and errors as JSON, one object a line")

	root.AddCommand(
		serve.NewDev(c),
		serve.New(c),
		log.New(c),
		records.NewAppend(c),
		records.NewRead(c),
		records.NewSession(c),
		records.NewWriter(c),
		groups.New(c),
		cluster.New(c),
		cluster.NewConnection(c),
		top.New(c),
		access.NewUser(c),
		access.NewToken(c),
		access.NewGrant(c),
		access.NewQuota(c),
		desired.NewApply(c),
		desired.NewDiff(c),
		certs.New(c),
		contexts.New(c),
		inspect.NewDoctor(c),
		inspect.NewReady(c),
		inspect.NewVerify(c),
		archives.New(c),
		archives.NewRestore(c),
		inspect.NewCheck(c),
		bench(c),
		newVersion(c),
		newMan(c),
	)
	withVersionFlag(root, c)
	usage := root.UsageFunc()
	root.SetUsageFunc(func(command *cobra.Command) error {
		err := usage(command)
		if command.HasParent() {
			fmt.Fprint(command.OutOrStderr(), "\nExit codes: strandline --help\n")
		}
		return err
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	terminal.EveryCommand(root, terminal.MarkUsageErrors)
	return root
}

// withVersionFlag gives the root the flag --version. Cobra's own needs a template to print no more than
// the version, and a program with templates keeps every method that could be called from one: megabytes.
func withVersionFlag(root *cobra.Command, c *terminal.Terminal) {
	asked := root.Flags().BoolP("version", "v", false, "version for strandline")
	otherwise := root.RunE
	root.RunE = func(command *cobra.Command, args []string) error {
		if *asked {
			_, err := fmt.Fprintln(c.Out, terminal.ReadVersion())
			return err
		}
		return otherwise(command, args)
	}
}

func newVersion(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  strandline version --json",
		Args:    terminal.Named(),
		RunE: func(*cobra.Command, []string) error {
			v := terminal.ReadVersion()
			return c.Show(v, func(out io.Writer) {
				fmt.Fprintln(out, v)
			})
		},
	}
}
