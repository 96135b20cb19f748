package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterTransferLeader(c *terminal.Terminal) *cobra.Command {
	var to string
	command := c.OneLog(&cobra.Command{
		Use:   "transfer-leader LOG --to NODE",
		Short: "Hand the leadership of a log to the replica on a node",
		Long: `Hand the leadership of a log to the replica on a node. Appends wait meanwhile, for
some milliseconds; none fails. The command ends when that replica leads.`,
		Example: "  strandline cluster transfer-leader orders --to b",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.TransferLeader(command.Context(), args[0], to); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log    string `json:"log"`
					Leader string `json:"leader"`
				}{args[0], to}
				return showChange(c, object, "node %s leads log %s", to, args[0])
			})
		},
	})
	command.Flags().StringVar(&to, "to", "", "the `node` that is to lead")
	_ = command.MarkFlagRequired("to")
	_ = command.RegisterFlagCompletionFunc("to", c.CompleteNode)
	return command
}
