package log

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogDelete(c *terminal.Terminal) *cobra.Command {
	var yes bool
	command := c.OneLog(&cobra.Command{
		Use:   "delete LOG",
		Short: "Delete a log with all its records",
		Long: `Delete a log with all its records, for ever. On a terminal it asks first, unless
--yes is given.

What was granted on its name stays, and counts for a log that is created with that name
again: "strandline grant list" shows it, "strandline grant remove" takes it away.`,
		Example: "  strandline log delete orders\n  strandline log delete orders --yes",
		RunE: func(command *cobra.Command, args []string) error {
			if err := c.Confirm(command, yes, fmt.Sprintf("Delete log %s with all its records, for ever?", args[0])); err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.DeleteLog(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log     string `json:"log"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "deleted log %s\n", args[0])
				})
			})
		},
	})
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}
