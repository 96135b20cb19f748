package groups

import (
	"encoding/json"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// lagJSON is a group's place in a partition as --json shows it.
type lagJSON struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed_offset,omitempty"` // absent: none
	Start     int64  `json:"start_offset"`
	End       int64  `json:"end_offset"`
	Lag       int64  `json:"lag"`
	Metadata  string `json:"metadata,omitempty"`
}

func newLagJSON(group string, l client.GroupLag) lagJSON {
	object := lagJSON{Group: group, Topic: l.Topic, Partition: l.Partition, Start: l.Start, End: l.End, Lag: l.Lag, Metadata: l.Metadata}
	if l.Offset >= 0 {
		object.Committed = &l.Offset
	}
	return object
}

func newLag(c *terminal.Terminal) *cobra.Command {
	var topics []string
	command := c.OneGroup(&cobra.Command{
		Use:   "lag GROUP",
		Short: "Show how far a consumer group is behind",
		Long: `Show, for each partition that a consumer group has committed an offset of, that offset,
the end of the partition and how many records lie between them, and the sum of all. It
needs the right to observe the group and the topics; others are left out.

If topics are named, their partitions without a committed offset are shown too; their lag is
the number of all their records.`,
		Example: "  strandline group lag billing\n  strandline group lag billing --topic orders --json | jq -s 'map(.lag) | add'",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, err := admin.GroupLag(command.Context(), args[0], topics...)
				if err != nil {
					return err
				}
				return showLag(c, args[0], all)
			})
		},
	})
	command.Flags().StringSliceVar(&topics, "topic", nil, "all partitions of these `topics` only")
	_ = command.RegisterFlagCompletionFunc("topic", completeTopic(c))
	return command
}

// completeTopic offers the logs as values of a flag.
func completeTopic(c *terminal.Terminal) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.CompleteLog(command, nil, word)
	}
}

func showLag(c *terminal.Terminal, group string, all []client.GroupLag) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, l := range all {
			if err := encoder.Encode(newLagJSON(group, l)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "TOPIC\tPARTITION\tCOMMITTED\tEND\tLAG")
	total := int64(0)
	for _, l := range all {
		fmt.Fprintf(columns, "%s\t%d\t%s\t%d\t%d\n", l.Topic, l.Partition, offsetOrNone(l.Offset), l.End, l.Lag)
		total += l.Lag
	}
	fmt.Fprintf(columns, "total\t\t\t\t%d\n", total)
	return columns.Flush()
}

func offsetOrNone(offset int64) string {
	if offset < 0 {
		return "none"
	}
	return strconv.FormatInt(offset, 10)
}
