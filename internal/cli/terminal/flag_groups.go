package terminal

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// checkFlagGroups says in plain words which flags are missing or do not go
// together. Cobra checks that too, but its errors use its own terms.
func checkFlagGroups(command *cobra.Command) error {
	var problems []string
	for _, err := range []error{command.ValidateRequiredFlags(), command.ValidateFlagGroups()} {
		if err != nil {
			problems = append(problems, plainly(err.Error()))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

var (
	missingFlags   = regexp.MustCompile(`^required flag\(s\) (.+) not set$`)
	oneNeeded      = regexp.MustCompile(`^at least one of the flags in the group \[(.+)\] is required$`)
	exclusiveFlags = regexp.MustCompile(`^if any flags in the group \[.+\] are set none of the others can be; \[(.+)\] were all set$`)
)

func plainly(text string) string {
	if m := missingFlags.FindStringSubmatch(text); m != nil {
		return dashed(strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", "), "and") + " is missing"
	}
	if m := oneNeeded.FindStringSubmatch(text); m != nil {
		return "give " + dashed(strings.Fields(m[1]), "or")
	}
	if m := exclusiveFlags.FindStringSubmatch(text); m != nil {
		return dashed(strings.Fields(m[1]), "and") + " exclude each other: give one of them"
	}
	return text
}

// dashed lists flags: --a, --b and --c.
func dashed(names []string, word string) string {
	last := len(names) - 1
	if last == 0 {
		return "--" + names[0]
	}
	return fmt.Sprintf("--%s %s --%s", strings.Join(names[:last], ", --"), word, names[last])
}

// Useless refuses flags that were given although they do nothing: without
// another one, for example.
func Useless(command *cobra.Command, why string, flags ...string) error {
	for _, name := range flags {
		if command.Flags().Changed(name) {
			return Misused(command, "--%s has no effect %s", name, why)
		}
	}
	return nil
}

// NotNegative refuses numbers below 0 in flags that count or name an offset.
func NotNegative(command *cobra.Command, flags ...string) error {
	for _, name := range flags {
		flag := command.Flag(name)
		if flag.Changed && strings.HasPrefix(flag.Value.String(), "-") {
			return Misused(command, "--%s must be 0 or more, not %s", name, flag.Value)
		}
	}
	return nil
}

// AtLeastOne refuses 0 for flags that would mean everything by it.
func AtLeastOne(command *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := command.Flag(name); flag.Changed && flag.Value.String() == "0" {
			return Misused(command, "--%s must be 1 or more, not 0; without it there is no limit", name)
		}
	}
	return nil
}
