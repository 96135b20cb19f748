package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

func newLogDelete(c *cli) *cobra.Command {
	var yes bool
	command := c.oneLog(&cobra.Command{
		Use:   "delete LOG",
		Short: "Delete a log with all its records",
		Long: `Delete a log with all its records, for ever. On a terminal it asks first, unless
--yes is given.`,
		Example: "  strandline log delete orders\n  strandline log delete orders --yes",
		RunE: func(command *cobra.Command, args []string) error {
			if err := c.confirm(command, yes, fmt.Sprintf("Delete log %s with all its records, for ever?", args[0])); err != nil {
				return err
			}
			return c.withChange(func(admin *client.Admin) error {
				if err := admin.DeleteLog(command.Context(), args[0]); err != nil {
					return changing(err)
				}
				object := struct {
					Log     string `json:"log"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return c.show(object, func(out io.Writer) {
					fmt.Fprintf(out, "deleted log %s\n", args[0])
				})
			})
		},
	})
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}
