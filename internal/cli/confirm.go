package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// confirm asks a person whether to do what cannot be undone. Where nobody sits at
// a terminal, or --yes is given, it asks nothing: a script means what it says.
func (c *cli) confirm(command *cobra.Command, yes bool, question string) error {
	if yes || c.json || !isTerminal(c.in) || !isTerminal(c.err) {
		return nil
	}
	return c.ask(command, question)
}

// ask takes nothing but a "y" or "yes" for one.
func (c *cli) ask(command *cobra.Command, question string) error {
	fmt.Fprintf(c.err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return misused(command, "nothing was done: the answer was not \"yes\"; --yes asks nothing")
}
