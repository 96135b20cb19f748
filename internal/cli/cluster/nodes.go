package cluster

import (
	"fmt"
	"io"
	"time"

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

func newClusterToken(c *terminal.Terminal) *cobra.Command {
	lifetime, reusable := terminal.Duration(time.Hour), false
	command := &cobra.Command{
		Use:   "token",
		Short: "Make a token with which a new node joins the cluster",
		Long: `Make a token and print it. A new node that is started with it (serve --join
--join-token) is admitted without "cluster add-node". It is for one node unless it is
--reusable, and expires. The cluster keeps only its hash: a lost token cannot be
shown again; make another one.`,
		Example: `  strandline cluster token --expires 10m
  STRANDLINE_SERVE_JOIN_TOKEN=$(strandline cluster token) strandline serve --node-name d --grpc 127.0.0.1:7174 --join 127.0.0.1:7171`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				made, err := admin.CreateToken(command.Context(), time.Duration(lifetime), reusable)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Token    string    `json:"token"`
					Expires  time.Time `json:"expires"`
					Reusable bool      `json:"reusable"`
				}{made.Token, made.Expires, reusable}
				return c.Show(object, func(out io.Writer) { fmt.Fprintln(out, made.Token) })
			})
		},
	}
	command.Flags().Var(&lifetime, "expires", "how long it can be used, at most 30d")
	command.Flags().BoolVar(&reusable, "reusable", false, "for any number of nodes")
	return command
}

func newClusterRemoveNode(c *terminal.Terminal) *cobra.Command {
	command := nodeArguments(&cobra.Command{
		Use:   "remove-node NODE",
		Short: "Remove a node from the cluster permanently",
		Long: `Remove a node from the cluster permanently: its name cannot be used again, and its data
is no longer of use. The command is refused if a log needs the node to keep its number
of replicas; move the replicas with "cluster replace-node" first.`,
		Example: "  strandline cluster remove-node c",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.RemoveNode(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Node    string `json:"node"`
					Removed bool   `json:"removed"`
				}{args[0], true}
				return showChange(c, object, "removed node %s", args[0])
			})
		},
	}, "NODE")
	command.ValidArgsFunction = terminal.CompleteFirst(c.CompleteNode)
	return command
}

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
				return terminal.Misused(command, "node %s cannot replace itself", with)
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
