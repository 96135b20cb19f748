package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"strandline.dev/internal/cli/terminal"
)

func newMan(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands into a directory, one file a command. The
directory is created if it does not exist.`,
		Example: `  strandline man /usr/local/share/man/man1
  strandline man man1 && man ./man1/strandline-append.1`,
		Args: terminal.Named("DIRECTORY"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			// A date would make two runs differ.
			header := &doc.GenManHeader{Section: "1", Source: "Strandline", Manual: "Strandline Manual", Date: &time.Time{}}
			root := command.Root()
			terminal.EveryCommand(root, func(command *cobra.Command) {
				command.DisableAutoGenTag = true
				command.Long = fenced(command.Long)
			})
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return err
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "strandline*.1"))
			if err != nil {
				return err
			}
			object := struct {
				Directory string `json:"directory"`
				Pages     int    `json:"pages"`
			}{args[0], len(pages)}
			return c.Show(object, func(out io.Writer) {
				fmt.Fprintf(out, "wrote %s into %s\n", terminal.Counted(int64(len(pages)), "page"), args[0])
			})
		},
	}
}

// fenced marks the indented lines of a help text as preformatted: in a manual page
// they would be filled like a paragraph otherwise.
func fenced(help string) string {
	var out []string
	indented := false
	for _, line := range strings.Split(help, "\n") {
		switch begins := strings.HasPrefix(line, "  "); {
		case begins && !indented:
			out = append(out, "", "```")
			indented = true
		case !begins && indented:
			out = append(out, "```", "")
			indented = false
		}
		out = append(out, line)
	}
	if indented {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}
