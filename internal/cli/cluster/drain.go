package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// drainJSON is a node that was drained, or not any more, as --json shows it.
type drainJSON struct {
	Node    string `json:"node"`
	Drained bool   `json:"drained"`
}

func newClusterDrain(c *terminal.Terminal) *cobra.Command {
	timeout := terminal.Duration(time.Minute)
	command := nodeArguments(&cobra.Command{
		Use:   "drain NODE",
		Short: "Transfer all logs that a node leads to others, and report when it may be stopped",
		Long: `Transfer the leadership of all logs of a node to other nodes, and give it none until
"cluster undrain", even after a restart. No append fails. The command ends when the node
leads no log and every log would keep a majority without it: then it may be stopped. If
that takes too long, the command reports the reason and ends with exit code 1; the node
stays drained, and the command may be run again.`,
		Example: `  strandline cluster drain b
  strandline cluster undrain b`,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				if err := c.Answered(func() error { return admin.DrainNode(command.Context(), args[0]) }); err != nil {
					return terminal.Changing(err)
				}
				if err := awaitDrained(command.Context(), c.NewWorkNotice(), admin, args[0], time.Duration(timeout)); err != nil {
					return err
				}
				return showChange(c, drainJSON{args[0], true}, "node %s leads nothing and may be stopped\nto let it lead again: %s", args[0], c.Suggest("cluster undrain "+args[0]))
			})
		},
	}, "NODE")
	command.Flags().Var(&timeout, "timeout", "how long to wait")
	command.ValidArgsFunction = terminal.CompleteFirst(c.CompleteNode)
	return command
}

func newClusterUndrain(c *terminal.Terminal) *cobra.Command {
	command := nodeArguments(&cobra.Command{
		Use:   "undrain NODE",
		Short: "Let a node lead logs again after \"cluster drain\"",
		Long: `Let a node lead logs again after "cluster drain". It gets its share of them within seconds,
unless the nodes run with --spread-leaders=false. Without a drain before, nothing changes.`,
		Example: "  strandline cluster undrain b",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.UndrainNode(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				return showChange(c, drainJSON{args[0], false}, "node %s may lead logs again, and gets its share of them within seconds\nto see the leaders: %s", args[0], c.Suggest("cluster status"))
			})
		},
	}, "NODE")
	command.ValidArgsFunction = terminal.CompleteFirst(c.CompleteNode)
	return command
}

// awaitDrained looks until a node may be stopped.
func awaitDrained(ctx context.Context, work *terminal.WorkNotice, admin *client.Admin, name string, timeout time.Duration) error {
	late, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	why := "no node has said how it is"
	for {
		status, err := admin.ClusterStatus(late)
		if at := slices.IndexFunc(status.Nodes, func(n client.NodeStatus) bool { return n.Name == name }); err == nil && at >= 0 {
			n := status.Nodes[at]
			if n.Drained && len(n.Waits) == 0 {
				return nil
			}
			why = reasons(n.Waits)
		}
		var answered *client.Error
		if errors.As(err, &answered) && !answered.Retryable && late.Err() == nil {
			return err
		}
		work.Waits(fmt.Sprintf("node %s is drained; waiting until it may be stopped (Ctrl-C ends only the waiting): %s", name, why))
		if pause(late) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("node %s is drained, but must not be stopped yet after %v: %s", name, terminal.Duration(timeout), why)
	}
}

// reasons are the first of some, of one line.
func reasons(why []string) string {
	const most = 3
	if len(why) > most {
		why = append(slices.Clone(why[:most]), fmt.Sprintf("and %d more", len(why)-most))
	}
	return strings.Join(why, "; ")
}
