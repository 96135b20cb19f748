package groups

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// target is where a group is to continue.
type target struct {
	offset         int64
	toStart, toEnd bool
	time           terminal.Moment
	flag           string // the one that was given
}

// at is the target in one partition.
func (t *target) at(command *cobra.Command, admin *client.Admin, l *client.GroupLag) (int64, error) {
	switch t.flag {
	case "to-start":
		return l.Start, nil
	case "to-end":
		return l.End, nil
	case "to-time":
		return admin.OffsetAt(command.Context(), l.Log, t.time.Time)
	}
	if t.offset < l.Start || t.offset > l.End {
		return 0, terminal.Misused(command, "--to-offset %d: partition %d of topic %s has only the offsets [%d, %d)", t.offset, l.Partition, l.Topic, l.Start, l.End)
	}
	return t.offset, nil
}

// step is what a reset changes of one partition.
type step struct {
	client.GroupLag
	to int64
}

func newReset(c *terminal.Terminal) *cobra.Command {
	var (
		to          target
		topics      []string
		dryRun, yes bool
	)
	command := c.OneGroup(&cobra.Command{
		Use:   "reset GROUP --topic TOPIC[:PARTITIONS]",
		Short: "Set where a consumer group continues",
		Long: `Set where a consumer group continues in a topic, or in some of its partitions. The
command shows the changes and, on a terminal, asks for confirmation unless --yes is given;
--dry-run only shows the changes.

It is refused while the group has members: stop them first, or evict them. An offset that
a partition does not hold is refused. A group that does not exist is created.

Up to 1,000 partitions are set together, all or none. With more partitions, some may be set
when an error ends the command.`,
		Example: `  strandline group reset billing --topic orders --to-start --dry-run
  strandline group reset billing --topic orders:0,3 --to-offset 1000
  strandline group reset billing --topic orders --topic payments --to-time 2026-01-31T12:00:00Z`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "to-offset"); err != nil {
				return err
			}
			wanted, err := parseTopics(topics)
			if err != nil {
				return terminal.Misused(command, "--topic %v", err)
			}
			for _, flag := range targets {
				if command.Flags().Changed(flag) {
					to.flag = flag
				}
			}
			var steps []step
			err = c.WithAdmin(func(admin *client.Admin) (err error) {
				steps, err = plan(command, admin, args[0], wanted, &to, dryRun)
				return err
			})
			if err != nil {
				return err
			}
			if dryRun || !c.JSON {
				if err := showPlan(c, args[0], steps, dryRun); err != nil || dryRun {
					return err
				}
			}
			if err := c.Confirm(command, yes, fmt.Sprintf("Let group %s continue there?", args[0])); err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				offsets := make([]client.GroupOffset, len(steps))
				for i, s := range steps {
					offsets[i] = client.GroupOffset{Topic: s.Topic, Partition: s.Partition, Offset: s.to}
				}
				if err := admin.SetGroupOffsets(command.Context(), args[0], offsets); err != nil {
					return terminal.Changing(err)
				}
				if c.JSON {
					return showPlan(c, args[0], steps, false)
				}
				fmt.Fprintf(c.Out, "reset group %s in %s\n", args[0], terminal.Counted(int64(len(steps)), "partition"))
				return nil
			})
		},
	})
	flags := command.Flags()
	flags.StringArrayVar(&topics, "topic", nil, "a `topic`, or TOPIC:0,1 for some of its partitions; may be given several times")
	flags.Int64Var(&to.offset, "to-offset", 0, "continue with the record at this `offset`")
	flags.BoolVar(&to.toStart, "to-start", false, "continue with the oldest record that the log still has")
	flags.BoolVar(&to.toEnd, "to-end", false, "continue with the records that are appended from now on")
	flags.Var(&to.time, "to-time", "continue with the first record appended at or after this time, by the leader's clock")
	flags.BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = command.MarkFlagRequired("topic")
	command.MarkFlagsOneRequired(targets...)
	command.MarkFlagsMutuallyExclusive(targets...)
	_ = command.RegisterFlagCompletionFunc("topic", completeTopic(c))
	return command
}

var targets = []string{"to-offset", "to-start", "to-end", "to-time"}

// parseTopics returns the partitions that are asked for, by topic; none: all.
func parseTopics(texts []string) (map[string][]int32, error) {
	wanted := map[string][]int32{}
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if _, twice := wanted[topic]; topic == "" || twice {
			return nil, fmt.Errorf("%q: give each topic once, as TOPIC or TOPIC:0,1", text)
		}
		wanted[topic] = nil
		if !some {
			continue
		}
		for number := range strings.SplitSeq(list, ",") {
			p, err := strconv.ParseInt(number, 10, 32)
			if err != nil || p < 0 || slices.Contains(wanted[topic], int32(p)) {
				return nil, fmt.Errorf("%q: %q is not a partition number, or is given twice", text, number)
			}
			wanted[topic] = append(wanted[topic], int32(p))
		}
	}
	return wanted, nil
}

// plan is what a reset changes, by topic and partition. While the group has members it is refused here already, before
// anybody is asked.
func plan(command *cobra.Command, admin *client.Admin, group string, wanted map[string][]int32, to *target, dryRun bool) (steps []step, err error) {
	d, err := admin.DescribeGroup(command.Context(), group)
	switch {
	case errors.Is(err, client.ErrPrecondition): // it begins with this
	case err != nil:
		return nil, err
	case d.Size > 0 && !dryRun:
		return nil, terminal.Changing(&client.Error{
			Reason: client.ErrPrecondition.Reason, Outcome: client.NotDone,
			Message: fmt.Sprintf("the consumer group %q has %s: stop them, or evict them, first", group, terminal.Counted(int64(d.Size), "member")),
		})
	}
	var names []string
	for name := range wanted {
		names = append(names, name)
	}
	lags, err := admin.GroupLag(command.Context(), group, names...)
	if err != nil {
		return nil, err
	}
	for i := range lags {
		l := &lags[i]
		if some := wanted[l.Topic]; len(some) > 0 && !slices.Contains(some, l.Partition) {
			continue
		}
		s := step{GroupLag: *l}
		if s.to, err = to.at(command, admin, l); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	for topic, some := range wanted {
		for _, p := range some {
			if !slices.ContainsFunc(lags, func(l client.GroupLag) bool { return l.Topic == topic && l.Partition == p }) {
				return nil, terminal.Misused(command, "topic %s has no partition %d", topic, p)
			}
		}
	}
	return steps, nil
}

// showPlan shows what a reset is going to change, or in JSON what it has changed.
func showPlan(c *terminal.Terminal, group string, steps []step, dryRun bool) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, s := range steps {
			object := struct {
				lagJSON
				To     int64 `json:"to_offset"`
				DryRun bool  `json:"dry_run,omitempty"`
			}{newLagJSON(group, s.GroupLag), s.to, dryRun}
			if err := encoder.Encode(object); err != nil {
				return err
			}
		}
		return nil
	}
	return showSteps(c.Out, steps)
}

func showSteps(out io.Writer, steps []step) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "TOPIC\tPARTITION\tCOMMITTED\tTO\tEND\tLAG AFTER")
	for _, s := range steps {
		fmt.Fprintf(columns, "%s\t%d\t%s\t%d\t%d\t%d\n", s.Topic, s.Partition, offsetOrNone(s.Offset), s.to, s.End, max(0, s.End-s.to))
	}
	return columns.Flush()
}
