package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewConnection makes the command connection.
func NewConnection(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "connection",
		Short: "List and close the connections of clients",
		Long: `List and close the connections of clients, over gRPC, Kafka's protocol and
HTTP. It needs the right to administer the cluster.`,
		Example: `  strandline connection list
  strandline connection close --principal user/bob`,
	}, newConnectionList(c), newConnectionClose(c))
}

// connectionJSON is a connection as --json shows it.
type connectionJSON struct {
	Node      string    `json:"node"`
	ID        uint64    `json:"id"`
	Port      string    `json:"port"`
	Principal string    `json:"principal"` // empty: none has authenticated
	Address   string    `json:"address"`
	Since     time.Time `json:"since"`
}

func newConnectionList(c *terminal.Terminal) *cobra.Command {
	var node string
	command := &cobra.Command{
		Use:   "list",
		Short: "List the connections of clients",
		Long: `List the connections of clients with all nodes that answer, or with one node: the last
principal that authenticated on each, its address, and the start of the connection. If no
principal is shown, none has authenticated.`,
		Example:           "  strandline connection list --node a\n  strandline connection list --json | jq -r .principal | sort | uniq -c",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, err := admin.ListConnections(command.Context(), node)
				if err != nil {
					return err
				}
				return showConnections(c, all)
			})
		},
	}
	command.Flags().StringVar(&node, "node", "", "those with the node of this `name` only")
	return command
}

func showConnections(c *terminal.Terminal, all []client.Connection) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, one := range all {
			if err := encoder.Encode(connectionJSON{one.Node, one.ID, one.Port, one.Principal, one.Address, one.Since.UTC()}); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "NODE\tID\tPORT\tPRINCIPAL\tADDRESS\tSINCE")
	for _, one := range all {
		principal := one.Principal
		if principal == "" {
			principal = "none"
		}
		fmt.Fprintf(columns, "%s\t%d\t%s\t%s\t%s\t%s\n", one.Node, one.ID, one.Port, principal, one.Address, one.Since.Local().Format(time.RFC3339))
	}
	return columns.Flush()
}

func newConnectionClose(c *terminal.Terminal) *cobra.Command {
	var node, principal string
	command := &cobra.Command{
		Use:   "close [ID]",
		Short: "Close one connection, or all connections of a principal",
		Long: `Close the connection with an id, which counts the connections of one node, or all
connections of a principal. Clients connect again; to keep one out, remove its user,
revoke its token or take its grants away first.`,
		Example:           "  strandline connection close --node a 17\n  strandline connection close --principal user/bob",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			var id uint64
			if len(args) == 1 {
				var err error
				if id, err = strconv.ParseUint(args[0], 10, 64); err != nil || id == 0 {
					return terminal.Misused(command, "connection id must be a number, not %q", args[0])
				}
			}
			switch {
			case (id == 0) == (principal == ""):
				return terminal.Misused(command, "give either the id of a connection or --principal")
			case id != 0 && node == "":
				return terminal.Misused(command, "connection %d needs --node, the name of its node", id)
			}
			return c.WithChange(func(admin *client.Admin) (err error) {
				closed := 1
				if id != 0 {
					err = admin.CloseConnection(command.Context(), node, id)
				} else {
					closed, err = admin.CloseConnectionsOf(command.Context(), node, principal)
				}
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Closed int `json:"closed"`
				}{closed}
				return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, "closed %s\n", terminal.Counted(int64(closed), "connection")) })
			})
		},
	}
	command.Flags().StringVar(&node, "node", "", "with the node of this `name` (with --principal: default all)")
	command.Flags().StringVar(&principal, "principal", "", "all connections of this `principal`, such as user/bob")
	return command
}
