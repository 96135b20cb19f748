package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterRemoveNode(c *terminal.Terminal) *cobra.Command {
	command := nodeArguments(&cobra.Command{
		Use:   "remove-node NODE",
		Short: "Remove a node from the cluster permanently",
		Long: `Remove a node from the cluster permanently: its name cannot be used again, and its data
is no longer of use. The command is refused if a log needs the node to keep its number
of replicas; move the replicas with "cluster replace-node" first.`,
		Example: "  strandline cluster remove-node c",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.RemoveNode(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Node    string `json:"node"`
					Removed bool   `json:"removed"`
				}{args[0], true}
				return showChange(c, object, "removed node %s", args[0])
			})
		},
	}, "NODE")
	command.ValidArgsFunction = terminal.CompleteFirst(c.CompleteNode)
	return command
}
