package cluster

import (
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterInit(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Form a cluster of nodes that were started with --peers, once",
		Long: `Form a cluster of the nodes that were started with --peers, which must name the
same nodes everywhere. Run it once all of them run, with any of them in --server: the
one with the lowest name forms the cluster, and the others pass the call on. Several
runs at the same time, or a later run, still form one cluster. If a node belongs to a
cluster already, the command reports it and does nothing.`,
		Example:           "  strandline cluster init --server 127.0.0.1:7171",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				formed, err := admin.InitCluster(command.Context())
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Cluster string   `json:"cluster"`
					Existed bool     `json:"existed"`
					Missing []string `json:"missing"`
				}{formed.ClusterID, formed.Existed, append([]string{}, formed.Missing...)}
				what := "formed cluster " + formed.ClusterID
				if formed.Existed {
					what = "the node belongs to cluster " + formed.ClusterID + " already"
				}
				if len(formed.Missing) > 0 {
					what += "\nnot there yet, and admitted when they come: " + strings.Join(formed.Missing, ", ")
				}
				return showChange(c, object, "%s\nto see it: %s", what, c.Suggest("cluster status"))
			})
		},
	}
}
