package terminal

import (
	"fmt"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

// Durability is the flag of a durability class.
type Durability client.Durability

func (d *Durability) Set(text string) error {
	for _, known := range []client.Durability{client.Disk, client.Memory} {
		if text == known.String() {
			*d = Durability(known)
			return nil
		}
	}
	return fmt.Errorf("disk or memory, not %q", text)
}

func (d Durability) String() string { return client.Durability(d).String() }

func (*Durability) Type() string { return "class" }

// Format is the flag of how records are written and read.
type Format string

const (
	FormatText Format = "text"
	FormatJSON Format = "json"
	FormatRaw  Format = "raw"
)

func (f *Format) Set(text string) error {
	switch known := Format(text); known {
	case FormatText, FormatJSON, FormatRaw:
		*f = known
		return nil
	}
	return fmt.Errorf("text, json or raw, not %q", text)
}

func (f Format) String() string { return string(f) }

func (*Format) Type() string { return "format" }

// CompleteWords offers the words that a flag knows to the shell.
func CompleteWords(command *cobra.Command, flag string, words ...string) {
	// The only error is a flag that does not exist, which the tests of the
	// command tree would show.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
