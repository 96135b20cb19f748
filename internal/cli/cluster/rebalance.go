package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterRebalance(c *terminal.Terminal) *cobra.Command {
	var wait bool
	command := &cobra.Command{
		Use:   "rebalance",
		Short: "Spread the replicas of all logs evenly over the nodes",
		Long: `Move replicas until every node that can be reached holds as many as the others, or
one more; some logs at a time, while they take appends. Use it after nodes
were added: nothing moves by itself. The command ends when the moves are decided, or
with --wait when they are done. Run again, it prints how many replicas are left.`,
		Example: `  strandline cluster rebalance
  strandline cluster rebalance --wait`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			with := c.WithChange
			if wait {
				with = c.WithAdmin // that it waits is no news
			}
			return with(func(admin *client.Admin) error {
				left, err := rebalance(command.Context(), admin, wait)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Left int `json:"left"`
				}{left}
				if left == 0 {
					return showChange(c, object, "replicas are spread evenly")
				}
				return showChange(c, object, "%s to move\nto wait for them: %s", terminal.Counted(int64(left), "replica"), c.Suggest("cluster rebalance --wait"))
			})
		},
	}
	command.Flags().BoolVar(&wait, "wait", false, "wait until no replica is left to move")
	return command
}

// rebalance returns how many replicas are left to move.
func rebalance(ctx context.Context, admin *client.Admin, wait bool) (left int, err error) {
	for {
		left, err = admin.Rebalance(ctx)
		if err != nil || left == 0 || !wait {
			return left, err
		}
		if !pause(ctx) {
			return left, ctx.Err()
		}
	}
}
