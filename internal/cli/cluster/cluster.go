// Package cluster is the commands about a cluster and its nodes.
package cluster

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
)

// New makes the command cluster.
func New(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "cluster",
		Short: "Form a cluster, show its status, and change its nodes",
		Long: `Form a cluster, show its status, and change its nodes. A node has the name that it was
started with (serve --node-name). Any node accepts a change; give several with --server, so
that the command works while one of them is down. docs/operations.md describes it step by
step.`,
		Example: `  strandline cluster status --server 127.0.0.1:7171,127.0.0.1:7172
  strandline cluster replace-node c --with d`,
	},
		newClusterStatus(c),
		newClusterInit(c),
		newClusterAddNode(c),
		newClusterToken(c),
		newClusterRemoveNode(c),
		newClusterReplaceNode(c),
		newClusterRebalance(c),
		newClusterTransferLeader(c),
		newClusterDrain(c),
		newClusterUndrain(c),
		newClusterDefaultRule(c),
		newClusterFinalize(c),
		newClusterRecover(c),
		newClusterBundle(c),
	)
}

// showChange prints a change of the cluster that was made.
func showChange(c *terminal.Terminal, object any, format string, args ...any) error {
	return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, format+"\n", args...) })
}

// nodeArguments gives a command names of nodes as arguments.
func nodeArguments(command *cobra.Command, names ...string) *cobra.Command {
	command.Args = terminal.Named(names...)
	command.ValidArgsFunction = cobra.NoFileCompletions
	return command
}
