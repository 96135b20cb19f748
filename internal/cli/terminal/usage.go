package terminal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group makes a command that only holds others. Alone it is an error that names
// them, but for the program itself, which shows its help; a word that none of them
// is called is an error with a suggestion.
func Group(command *cobra.Command, members ...*cobra.Command) *cobra.Command {
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
			return Misused(command, "give a command of %s: %s", command.CommandPath(), strings.Join(names, ", "))
		}
		err := fmt.Errorf("%s has no command %q", command.CommandPath(), args[0])
		command.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets elsewhere
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

// Misused returns the error of a command that was called in a wrong way.
func Misused(command *cobra.Command, format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...), command.CommandPath()}
}

// MarkUsageErrors makes every error of a command a usageError up to the moment
// it begins to run: flags, arguments, settings.
func MarkUsageErrors(command *cobra.Command) {
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

// EveryCommand visits a command and all below it.
func EveryCommand(command *cobra.Command, visit func(*cobra.Command)) {
	visit(command)
	for _, below := range command.Commands() {
		EveryCommand(below, visit)
	}
}

// OneLog is the argument of most commands: the name of a log.
func (c *Terminal) OneLog(command *cobra.Command) *cobra.Command {
	command.Args = Named("LOG")
	command.ValidArgsFunction = c.CompleteLog
	return command
}

// OneGroup is the argument of most commands about consumer groups: the name of one.
func (c *Terminal) OneGroup(command *cobra.Command) *cobra.Command {
	command.Args = Named("GROUP")
	command.ValidArgsFunction = c.CompleteGroup
	return command
}

// Named demands exactly these arguments and names the first that is missing.
func Named(names ...string) cobra.PositionalArgs {
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
		what = "a whole number, 0 or more"
	}
	if errors.Is(number.Err, strconv.ErrRange) {
		return fmt.Errorf("--%s %s is out of range", flag.Name, invalid.GetValue())
	}
	return fmt.Errorf("--%s must be %s, not %q", flag.Name, what, invalid.GetValue())
}
