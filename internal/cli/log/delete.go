package log

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogDelete(c *terminal.Terminal) *cobra.Command {
	var yes bool
	command := c.OneLog(&cobra.Command{
		Use:   "delete LOG",
		Short: "Delete a log with all its records",
		Long: `Delete a log with all its records permanently. On a terminal the command asks first,
unless --yes is given.

Grants on its name stay, and apply to a new log with the same name: the command reports
them if the caller may see grants, with the command that removes them.`,
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
					Log     string   `json:"log"`
					Deleted bool     `json:"deleted"`
					Grants  []string `json:"grants_that_stay,omitempty"`
				}{args[0], true, grantsOn(command.Context(), admin, args[0])}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "deleted log %s\n", args[0])
					for _, g := range object.Grants {
						fmt.Fprintf(out, "a log that is created with this name again has what was granted: %s\n", c.Suggest("grant remove "+g))
					}
				})
			})
		},
	})
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}

// grantsOn are the grants on the name of a log, as "grant remove" takes them; none where the
// caller may not see them.
func grantsOn(ctx context.Context, admin *client.Admin, log string) (all []string) {
	grants, _, err := admin.Access().ListGrants(ctx)
	if err != nil {
		return nil
	}
	for _, g := range grants {
		if g.Object == "log/"+log {
			all = append(all, g.Principal+" "+strings.Join(g.Rights, ",")+" "+g.Object)
		}
	}
	return all
}
