package log

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogList(c *terminal.Terminal) *cobra.Command {
	var internal bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List all logs",
		Long: `List all logs of the cluster: the range of readable records, [START, END), the space
that each log occupies on the node that answered, and its problems.

If no node that holds a log answers, its range is unknown (null with --json), and the
exit code is 1.`,
		Example: "  strandline log list\n  strandline log list --json | jq -r .log",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				logs, err := admin.ListLogs(command.Context(), internal)
				if err != nil {
					return err
				}
				if err := showLogs(c, logs); err != nil {
					return err
				}
				return unknownLogs(logs)
			})
		},
	}
	command.Flags().BoolVar(&internal, "internal", false, "show the system's own logs as well")
	return command
}

// showLogs prints a line for each log.
func showLogs(c *terminal.Terminal, logs []client.LogInfo) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, i := range logs {
			if err := encoder.Encode(newLogJSON(i)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "LOG\tSTART\tEND\tUSED\tDURABILITY\tRETENTION\tPROBLEM")
	for _, i := range logs {
		held := fmt.Sprintf("%d\t%d\t%v", i.Start, i.End, terminal.Size(i.BytesUsed))
		if i.Unknown {
			held = "unknown\tunknown\tunknown"
		}
		fmt.Fprintf(columns, "%s\t%s\t%v\t%s\t%s\n", i.Name, held, i.Config.Durability, retention(i.Config), i.Problem)
	}
	return columns.Flush()
}

// unknownLogs is nil if the range of every log is known.
func unknownLogs(logs []client.LogInfo) error {
	var names []string
	for _, i := range logs {
		if i.Unknown {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("no node with a replica answered for these logs: %s", strings.Join(names, ", "))
}
