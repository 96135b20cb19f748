package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterFinalize(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "finalize",
		Short: "Finish an upgrade: let nodes write data that the previous release cannot read",
		Long: `Raise the feature level of the cluster to the newest that its nodes understand, after
all of them run the new release. Until then every node can go back to the release
before; afterwards none can. The command is refused, and names the nodes, while one of
them does not answer or runs a release that is too old; run again, it changes nothing.
"cluster status" shows the level of the cluster and those that each node understands.`,
		Example:           "  strandline cluster finalize",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				level, err := admin.FinalizeCluster(command.Context())
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Level int `json:"level"`
				}{level}
				return showChange(c, object, "the cluster is at feature level %d", level)
			})
		},
	}
}
