// Package terminal is what the commands share: the streams and the flags that come
// before any command's own, the connection to a cluster, results as text or JSON,
// progress, quantities, settings, and what a failure prints and exits with.
package terminal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"strandline.dev/internal/transport/secure"
)

// Terminal is what every command shares: the streams, the environment, and the
// flags that come before any command's own.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Args     []string // the command line, without the program
	Environ  []string

	ConfigFile string
	Context    string // of Contexts; empty: the one in use
	Servers    []string
	Insecure   bool
	// Files show this side and whom it believes. serve and clients both have them.
	Files secure.Files
	// TokenFile holds the token that a client shows; empty: none.
	TokenFile string
	JSON      bool

	// inEnvironment are the flags whose values came from there, by name: a command that is
	// suggested finds them there again.
	inEnvironment []string
}

// Show prints a result: as one JSON object a line, or for people.
func (c *Terminal) Show(object any, text func(out io.Writer)) error {
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(object)
	}
	text(c.Out)
	return nil
}

// Fields prints names and values, one pair a line, aligned.
func Fields(out io.Writer, pairs ...any) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(columns, "%v\t%v\n", pairs[i], pairs[i+1])
	}
	columns.Flush()
}

// Counted is a number of things, in words that fit it.
func Counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// OrUnknown returns s, or "unknown" if it is empty.
func OrUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Printable quotes what is not plain text: it is somebody else's, and for a terminal.
func Printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}

// Confirm asks a person to confirm a change that cannot be undone. Without a terminal, or with
// --yes, it asks nothing, so that scripts do not wait.
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
	return Misused(command, "nothing was done: the answer was not \"yes\"; use --yes to skip the question")
}
