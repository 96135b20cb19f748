package cluster

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterAddNode(c *terminal.Terminal) *cobra.Command {
	return nodeArguments(&cobra.Command{
		Use:   "add-node NODE ADDRESS",
		Short: "Add a node to the cluster",
		Long: `Announce a node that runs at an address and has not joined a cluster, give it the
addresses of this cluster, and wait until it is a member. A node that was started with
--join asks by itself, and is admitted once it is announced. Its name must never have
been used in this cluster. New logs may be placed on it; existing logs stay where they
are until "cluster replace-node" moves a node's replicas.

Nodes that bring a token need no announcement: see "cluster token".`,
		Example: "  strandline cluster add-node d 127.0.0.1:7174",
		RunE: func(command *cobra.Command, args []string) error {
			name, address := args[0], args[1]
			if err := terminal.CheckNodeName(name); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			if err := terminal.CheckReachable(address, c.Insecure || c.Encrypted(), terminal.BeyondHint); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			return c.WithChange(func(admin *client.Admin) error {
				existed, err := admin.AddNode(command.Context(), name, address)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Node    string `json:"node"`
					Address string `json:"address"`
					Existed bool   `json:"existed"`
				}{name, address, existed}
				if existed {
					return showChange(c, object, "node %s at %s is a member already", name, address)
				}
				return showChange(c, object, "added node %s at %s", name, address)
			})
		},
	}, "NODE", "ADDRESS")
}
