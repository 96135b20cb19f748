package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

// durability is the flag of a durability class.
type durability client.Durability

func (d *durability) Set(text string) error {
	for _, known := range []client.Durability{client.Disk, client.Memory} {
		if text == known.String() {
			*d = durability(known)
			return nil
		}
	}
	return fmt.Errorf("disk or memory, not %q", text)
}

func (d durability) String() string { return client.Durability(d).String() }

func (*durability) Type() string { return "class" }

// format is the flag of how records are written and read.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
	formatRaw  format = "raw"
)

func (f *format) Set(text string) error {
	switch known := format(text); known {
	case formatText, formatJSON, formatRaw:
		*f = known
		return nil
	}
	return fmt.Errorf("text, json or raw, not %q", text)
}

func (f format) String() string { return string(f) }

func (*format) Type() string { return "format" }

// completeWords offers the words that a flag knows to the shell.
func completeWords(command *cobra.Command, flag string, words ...string) {
	// The only error is a flag that does not exist, which the tests of the
	// command tree would show.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
