package cluster

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

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
