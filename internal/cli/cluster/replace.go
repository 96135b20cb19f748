package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterReplaceNode(c *terminal.Terminal) *cobra.Command {
	var with string
	command := nodeArguments(&cobra.Command{
		Use:   "replace-node NODE --with NODE",
		Short: "Move all replicas of a node, dead or alive, to another one",
		Long: `Move all replicas of a node, dead or alive, to another one, and remove it from the
cluster when they have caught up there. The command ends when the move has been
decided; "cluster status --wait-healthy" waits until it is done.`,
		Example: `  strandline cluster replace-node c --with d
  strandline cluster status --wait-healthy --timeout 10m`,
		RunE: func(command *cobra.Command, args []string) error {
			if args[0] == with {
				return terminal.Misused(command, "node %s cannot take its own place", with)
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.ReplaceNode(command.Context(), args[0], with); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Node string `json:"node"`
					With string `json:"with"`
				}{args[0], with}
				return showChange(c, object, "the replicas of node %s move to %s\nto wait for them: %s",
					args[0], with, c.Suggest("cluster status --wait-healthy"))
			})
		},
	}, "NODE")
	command.Flags().StringVar(&with, "with", "", "the `node` that replaces it")
	command.ValidArgsFunction = terminal.CompleteFirst(c.CompleteNode)
	_ = command.MarkFlagRequired("with")
	_ = command.RegisterFlagCompletionFunc("with", c.CompleteNode)
	return command
}
