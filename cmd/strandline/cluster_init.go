package main

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
)

func newClusterInit(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Form a cluster of nodes that were started with --peers, once",
		Long: `Form a cluster of the nodes that were started with --peers. It is asked of one of
them, when all run, and once in the life of the cluster: a node that belongs to
one refuses.`,
		Example:           "  strandline cluster init --server 127.0.0.1:7171",
		Args:              named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.withChange(func(admin *client.Admin) error {
				id, err := admin.InitCluster(command.Context())
				if err != nil {
					return changing(err)
				}
				object := struct {
					Cluster string `json:"cluster"`
				}{id}
				return c.showChange(object, "formed cluster %s\nto see it: %s", id, c.suggest("cluster status"))
			})
		},
	}
}
