package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands into a directory, one file a command. The
directory is created if it does not exist.`,
		Example: `  strandline man /usr/local/share/man/man1
  strandline man man1 && man ./man1/strandline-append.1`,
		Args: named("DIRECTORY"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			// A date would make two runs differ.
			header := &doc.GenManHeader{Section: "1", Source: "Strandline", Manual: "Strandline Manual", Date: &time.Time{}}
			root := command.Root()
			everyCommand(root, func(command *cobra.Command) { command.DisableAutoGenTag = true })
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
			return c.show(object, func(out io.Writer) {
				fmt.Fprintf(out, "wrote %s into %s\n", counted(int64(len(pages)), "page"), args[0])
			})
		},
	}
}
