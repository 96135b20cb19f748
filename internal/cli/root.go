package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `Strandline is a replicated write-ahead log: append records, get offsets, read
them back in one order, for ever.

  strandline dev                                  three nodes in one process, to try
  strandline serve                                a node on this machine
  strandline log create orders                    a log
  echo hello | strandline append orders           a record
  strandline read orders --from-start             all records

Every flag can also be set in a TOML file (--config) or in the environment. The
flags given win over the environment, and that over the file. --retention of
"strandline log create" is

  in the file         [log.create]
                      retention = "1m"
  in the environment  STRANDLINE_LOG_CREATE_RETENTION=1m

and --server, which every command knows, is server in the file and
STRANDLINE_SERVER. An unknown name in either is an error.
`

func newRoot(c *cli) *cobra.Command {
	root := group(&cobra.Command{
		Use:           "strandline",
		Short:         "A replicated write-ahead log",
		Long:          rootHelp + "\n" + exitCodeHelp,
		Version:       readVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			return c.applySettings(command)
		},
	})
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)

	flags := root.PersistentFlags()
	flags.StringVar(&c.configFile, "config", "", "TOML `file` with settings")
	flags.StringSliceVar(&c.servers, "server", []string{defaultGRPCAddress}, "gRPC `addresses` of the nodes, separated by commas")
	flags.BoolVar(&c.insecure, "insecure", false, "allow unencrypted connections beyond this machine")
	flags.BoolVar(&c.json, "json", false, "write results and errors as JSON, one object a line")

	root.AddCommand(
		newDev(c),
		newServe(c),
		newLog(c),
		newAppend(c),
		newRead(c),
		newSession(c),
		newWriter(c),
		newCluster(c),
		newDoctor(c),
		newVerify(c),
		newCheck(c),
		newBench(c),
		newVersion(c),
		newMan(c),
	)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(root.UsageTemplate() + "{{if .HasParent}}\nExit codes: strandline --help\n{{end}}")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	everyCommand(root, markUsageErrors)
	return root
}

// group makes a command that only holds others. Alone it is an error that names
// them, but for the program itself, which shows its help; a word that none of them
// is called is an error with a suggestion.
func group(command *cobra.Command, members ...*cobra.Command) *cobra.Command {
	command.Args = cobra.ArbitraryArgs
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 && !command.HasParent():
			return command.Help()
		case len(args) == 0:
			var names []string
			for _, member := range members {
				names = append(names, member.Name())
			}
			return misused(command, "which command of %s? %s", command.CommandPath(), strings.Join(names, ", "))
		}
		err := fmt.Errorf("%s has no command %q", command.CommandPath(), args[0])
		if near := command.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w, did you mean %s?", err, strings.Join(near, " or "))
		}
		return usageError{err, command.CommandPath()}
	}
	command.AddCommand(members...)
	return command
}

// usageError is a command line that makes no sense. Nothing has been done.
type usageError struct {
	error
	command string
}

func (e usageError) Unwrap() error { return e.error }

func misused(command *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...), command.CommandPath()}
}

// markUsageErrors makes every error of a command a usageError up to the moment
// it begins to run: flags, arguments, settings.
func markUsageErrors(command *cobra.Command) {
	mark := func(command *cobra.Command, err error) error {
		if err == nil || errors.As(err, new(usageError)) {
			return err
		}
		if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
			err = explainNumber(invalid, err)
		}
		return usageError{err, command.CommandPath()}
	}
	command.SetFlagErrorFunc(mark)
	if check := command.Args; check != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			return mark(command, check(command, args))
		}
	}
	if prepare := command.PersistentPreRunE; prepare != nil {
		command.PersistentPreRunE = func(command *cobra.Command, args []string) error {
			return mark(command, prepare(command, args))
		}
	}
	// Cobra checks these after PersistentPreRun, which is right, because a
	// setting can be what is required. Checked here they can be marked.
	command.PreRunE = func(command *cobra.Command, _ []string) error {
		return mark(command, checkFlagGroups(command))
	}
}

// everyCommand visits a command and all below it.
func everyCommand(command *cobra.Command, visit func(*cobra.Command)) {
	visit(command)
	for _, below := range command.Commands() {
		everyCommand(below, visit)
	}
}

// oneLog is the argument of most commands: the name of a log.
func (c *cli) oneLog(command *cobra.Command) *cobra.Command {
	command.Args = named("LOG")
	command.ValidArgsFunction = c.completeLog
	return command
}

// named demands exactly these arguments and names the first that is missing.
func named(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// explainNumber says what kind of number a flag takes, where pflag says what the
// Go function that reads it is called.
func explainNumber(invalid *pflag.InvalidValueError, err error) error {
	number := (*strconv.NumError)(nil)
	if !errors.As(err, &number) {
		return err
	}
	flag, what := invalid.GetFlag(), "a whole number"
	switch {
	case strings.HasPrefix(flag.Value.Type(), "float"):
		what = "a number"
	case flag.Value.Type() == "bool":
		what = "true or false"
	case strings.HasPrefix(flag.Value.Type(), "uint"):
		what = "a whole number from 0 on"
	}
	if errors.Is(number.Err, strconv.ErrRange) {
		return fmt.Errorf("--%s %s is out of range", flag.Name, invalid.GetValue())
	}
	return fmt.Errorf("--%s %q: %s is needed", flag.Name, invalid.GetValue(), what)
}
