package terminal

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Confirm asks a person whether to do what cannot be undone. Where nobody sits at
// a terminal, or --yes is given, it asks nothing: a script means what it says.
func (c *Terminal) Confirm(command *cobra.Command, yes bool, question string) error {
	if yes || c.JSON || !IsTerminal(c.In) || !IsTerminal(c.Err) {
		return nil
	}
	return c.ask(command, question)
}

// ask takes nothing but a "y" or "yes" for one.
func (c *Terminal) ask(command *cobra.Command, question string) error {
	fmt.Fprintf(c.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return Misused(command, "nothing was done: the answer was not \"yes\"; --yes asks nothing")
}
