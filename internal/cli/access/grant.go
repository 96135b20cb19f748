// Package access is the commands for users and rights: user, token, grant and quota.
package access

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

const objectHelp = `
An OBJECT is cluster, log/NAME, log/PREFIX*, group/NAME or group/PREFIX*. RIGHTS are
separated by commas:

  on logs     append, read, trim, configure, create, delete, observe
  on groups   read (take part), delete, observe
  on cluster  create, delete, observe (all logs and groups), administer (everything)`

// NewGrant makes the command grant.
func NewGrant(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "grant",
		Short: "Manage the rights of principals, and enforce them",
		Long: `Manage the rights of principals, and enforce them. A PRINCIPAL is user/NAME, from a
certificate, a token or a password; node/NAME; or *, every authenticated client. Nodes have
all rights. While rights are not enforced, every client that can connect has them too.
` + objectHelp,
		Example: `  strandline grant add user/alice append,read log/orders
  strandline grant enforce --administrator user/admin`,
	}, newGrantAdd(c), newGrantRemove(c), newGrantList(c), newGrantEnforce(c))
}

// grant is one as it is shown.
type grant struct {
	Principal string   `json:"principal"`
	Object    string   `json:"object"`
	Rights    []string `json:"rights"`
}

func newGrantAdd(c *terminal.Terminal) *cobra.Command {
	return changeGrants(c, &cobra.Command{
		Use:   "add PRINCIPAL RIGHTS OBJECT",
		Short: "Give rights to a principal",
		Long:  "Give rights to a principal, in addition to those that it has.\n" + objectHelp,
		Example: `  strandline grant add user/alice append,read log/orders
  strandline grant add user/reports read 'log/audit-*'
  strandline grant add user/prometheus observe cluster`,
	}, "granted", (*client.Access).AddGrants)
}

func newGrantRemove(c *terminal.Terminal) *cobra.Command {
	return changeGrants(c, &cobra.Command{
		Use:   "remove PRINCIPAL RIGHTS OBJECT",
		Short: "Take rights away from a principal",
		Long: `Remove rights of a principal that were granted on exactly this object; rights from other
grants stay. All nodes enforce the removal within a second, also in reads that are in
progress. While rights are enforced, the last grant of administer cannot be removed.`,
		Example: "  strandline grant remove user/alice append log/orders",
	}, "removed", (*client.Access).RemoveGrants)
}

func changeGrants(c *terminal.Terminal, command *cobra.Command, done string, change func(*client.Access, context.Context, ...client.Grant) error) *cobra.Command {
	command.Args = terminal.Named("PRINCIPAL", "RIGHTS", "OBJECT")
	command.ValidArgsFunction = cobra.NoFileCompletions
	command.RunE = func(command *cobra.Command, args []string) error {
		g := grant{args[0], args[2], strings.Split(args[1], ",")}
		return c.WithChange(func(admin *client.Admin) error {
			if err := change(admin.Access(), command.Context(), client.Grant(g)); err != nil {
				return terminal.Changing(err)
			}
			return c.Show(g, func(out io.Writer) { fmt.Fprintf(out, "%s %s on %s: %s\n", done, args[1], g.Object, g.Principal) })
		})
	}
	return command
}

func newGrantList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List all grants",
		Long:              "List all grants, and whether they are enforced.",
		Example:           "  strandline grant list",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, enforced, err := admin.Access().ListGrants(command.Context())
				if err != nil {
					return err
				}
				object := struct {
					Enforced bool    `json:"enforced"`
					Grants   []grant `json:"grants"`
				}{enforced, []grant{}}
				for _, g := range all {
					object.Grants = append(object.Grants, grant(g))
				}
				return c.Show(object, func(out io.Writer) {
					table(out, "PRINCIPAL\tOBJECT\tRIGHTS", len(all), func(i int) []any {
						return []any{all[i].Principal, all[i].Object, strings.Join(all[i].Rights, ",")}
					})
					if !enforced {
						fmt.Fprintln(out, "not enforced: whoever is let in may do everything (strandline grant enforce)")
					}
				})
			})
		},
	}
}

func newGrantEnforce(c *terminal.Terminal) *cobra.Command {
	var off bool
	var administrator string
	command := &cobra.Command{
		Use:   "enforce",
		Short: "Refuse requests without a grant",
		Long: `Make all nodes refuse requests without a grant from now on; with --off, allow every request
of every client that can connect again. One principal must have the right to administer;
--administrator gives it in the same step. If no user can administer the cluster any more,
use the certificate of a node: a node has all rights.`,
		Example: `  strandline grant enforce --administrator user/admin
  strandline grant enforce --off`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.Access().EnforceRights(command.Context(), !off, administrator); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Enforced bool `json:"enforced"`
				}{!off}
				return c.Show(object, func(out io.Writer) {
					if off {
						fmt.Fprintln(out, "rights are not enforced: whoever is let in may do everything")
						return
					}
					fmt.Fprintln(out, "rights are enforced: what is not granted is refused")
				})
			})
		},
	}
	command.Flags().BoolVar(&off, "off", false, "allow every request again")
	command.Flags().StringVar(&administrator, "administrator", "", "give this `principal` the right to administer")
	return command
}

// table prints rows below a heading; nothing if there are none.
func table(out io.Writer, heading string, rows int, row func(i int) []any) {
	if rows == 0 {
		return
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, heading)
	for i := range rows {
		for j, cell := range row(i) {
			if j > 0 {
				fmt.Fprint(columns, "\t")
			}
			fmt.Fprint(columns, cell)
		}
		fmt.Fprintln(columns)
	}
	columns.Flush()
}
