package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

func newLogList(c *cli) *cobra.Command {
	var internal bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List all logs",
		Example: "  strandline log list\n  strandline log list --json | jq -r .log",
		Args:    named(),
		RunE: func(command *cobra.Command, _ []string) error {
			return c.withAdmin(func(admin *client.Admin) error {
				logs, err := admin.ListLogs(command.Context(), internal)
				if err != nil {
					return err
				}
				return c.showLogs(logs)
			})
		},
	}
	command.Flags().BoolVar(&internal, "internal", false, "show the system's own logs as well")
	return command
}

// showLogs prints a line for each log.
func (c *cli) showLogs(logs []client.LogInfo) error {
	if c.json {
		encoder := json.NewEncoder(c.out)
		for _, i := range logs {
			if err := encoder.Encode(newLogJSON(i)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "LOG\tSTART\tEND\tUSED\tDURABILITY\tRETENTION\tPROBLEM")
	for _, i := range logs {
		fmt.Fprintf(columns, "%s\t%d\t%d\t%v\t%v\t%s\t%s\n",
			i.Name, i.Start, i.End, size(i.BytesUsed), i.Config.Durability, retention(i.Config), i.Problem)
	}
	return columns.Flush()
}
