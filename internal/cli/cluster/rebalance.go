package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterRebalance(c *terminal.Terminal) *cobra.Command {
	var wait bool
	command := &cobra.Command{
		Use:   "rebalance",
		Short: "Spread the replicas of all logs evenly over the nodes",
		Long: `Move replicas until every reachable node holds as many as the others, or one more; some
logs at a time, while they accept appends. Use it after adding nodes: replicas do not move
by themselves. The command ends when the moves are decided, or with --wait when they are
done. Run it again to see how many replicas are left to move.`,
		Example: `  strandline cluster rebalance
  strandline cluster rebalance --wait`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				left, err := rebalance(command.Context(), c, admin, wait)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Left int `json:"left"`
				}{left}
				if left == 0 {
					return showChange(c, object, "replicas are spread evenly over the nodes that can be reached")
				}
				return showChange(c, object, "the cluster moves replicas, some at a time: %d left\nto wait until all are moved: %s", left, c.Suggest("cluster rebalance --wait"))
			})
		},
	}
	command.Flags().BoolVar(&wait, "wait", false, "wait until no replica is left to move")
	return command
}

// rebalance returns how many replicas are left to move.
func rebalance(ctx context.Context, c *terminal.Terminal, admin *client.Admin, wait bool) (left int, err error) {
	for work := c.NewWorkNotice(); ; {
		err = c.Answered(func() error {
			left, err = admin.Rebalance(ctx)
			return err
		})
		if err != nil || left == 0 || !wait {
			return left, err
		}
		work.Waits(fmt.Sprintf("the cluster moves replicas: %d left (Ctrl-C ends only the waiting)", left))
		if !pause(ctx) {
			return left, ctx.Err()
		}
	}
}
