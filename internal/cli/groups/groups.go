// Package groups are the commands about consumer groups, whose members are Kafka's clients.
package groups

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// New makes the command group.
func New(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "group",
		Short: "List Kafka's consumer groups, and reset, evict and delete them",
		Long: `List the consumer groups of Kafka's clients, and reset, evict and delete them. The commands
need neither a Kafka client nor a Kafka port on the node.

The rights are those that Kafka's tools need: observe on a group to show it, read on
it and on the topics to reset it, read to evict members, delete to delete it.`,
		Example: `  strandline group list
  strandline group lag billing`,
	}, newList(c), newDescribe(c), newLag(c), newReset(c), newEvict(c), newDelete(c))
}

// groupJSON is a group as --json shows it.
type groupJSON struct {
	Group        string `json:"group"`
	State        string `json:"state"`
	ProtocolType string `json:"protocol_type"` // empty: it never had members
	Members      int    `json:"members"`
	Principal    string `json:"principal"` // empty: nobody that is known, or not for this caller
}

func newGroupJSON(g client.GroupInfo) groupJSON {
	return groupJSON{g.Group, g.State, g.ProtocolType, g.Size, g.Principal}
}

func newList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List consumer groups",
		Long: `List the consumer groups that the caller may observe, by name: those with members, and
those that have committed offsets. If rights are enforced, an administrator of the cluster
also sees the PRINCIPAL whose share of the groups each counts against.`,
		Example:           "  strandline group list\n  strandline group list --json | jq -r 'select(.members == 0) | .group'",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, err := admin.ListGroups(command.Context())
				if err != nil {
					return err
				}
				return showGroups(c, all)
			})
		},
	}
}

func showGroups(c *terminal.Terminal, all []client.GroupInfo) error {
	if c.JSON {
		encoder := json.NewEncoder(c.Out)
		for _, g := range all {
			if err := encoder.Encode(newGroupJSON(g)); err != nil {
				return err
			}
		}
		return nil
	}
	columns := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "GROUP\tSTATE\tTYPE\tMEMBERS\tPRINCIPAL")
	for _, g := range all {
		fmt.Fprintf(columns, "%s\t%s\t%s\t%d\t%s\n", terminal.Printable(g.Group), g.State, orNone(g.ProtocolType), g.Size, terminal.OrUnknown(g.Principal))
	}
	return columns.Flush()
}

// orNone is somebody else's text for a terminal, or a word for none.
func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return terminal.Printable(text)
}

// memberJSON is a member of a group as --json shows it.
type memberJSON struct {
	Member    string         `json:"member"`
	Instance  string         `json:"instance"` // empty: none
	ClientID  string         `json:"client_id"`
	Host      string         `json:"host"`
	Principal string         `json:"principal"` // empty: nobody that is known, or not for this caller
	Assigned  []assignedJSON `json:"assigned"`
	Truncated bool           `json:"truncated,omitempty"` // there is more that it reads
}

type assignedJSON struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

func newDescribe(c *terminal.Terminal) *cobra.Command {
	return c.OneGroup(&cobra.Command{
		Use:   "describe GROUP",
		Short: "Show a consumer group, its members, and what each of them reads",
		Long: `Show a consumer group with its members: their ids, their addresses, and the partitions that
each reads. During a rebalance no member reads any.`,
		Example: "  strandline group describe billing\n  strandline group describe billing --json | jq -r .members[].host",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				d, err := admin.DescribeGroup(command.Context(), args[0])
				if err != nil {
					return err
				}
				return showGroup(c, d)
			})
		},
	})
}

func showGroup(c *terminal.Terminal, d client.GroupDescription) error {
	object := struct {
		Group        string       `json:"group"`
		State        string       `json:"state"`
		ProtocolType string       `json:"protocol_type"`
		Protocol     string       `json:"protocol"` // empty: they have not agreed
		Coordinator  string       `json:"coordinator"`
		Principal    string       `json:"principal"`
		Members      []memberJSON `json:"members"`
	}{d.Group, d.State, d.ProtocolType, d.Protocol, d.Coordinator, d.Principal, []memberJSON{}}
	for _, m := range d.Members {
		one := memberJSON{m.ID, m.Instance, m.ClientID, m.Host, m.Principal, []assignedJSON{}, m.Truncated}
		for _, a := range m.Assigned {
			one.Assigned = append(one.Assigned, assignedJSON(a))
		}
		object.Members = append(object.Members, one)
	}
	return c.Show(object, func(out io.Writer) {
		terminal.Fields(out, "group", terminal.Printable(d.Group), "state", d.State, "type", orNone(d.ProtocolType), "protocol", orNone(d.Protocol),
			"coordinator", terminal.OrUnknown(d.Coordinator), "principal", terminal.OrUnknown(d.Principal), "members", len(d.Members))
		if len(d.Members) == 0 {
			return
		}
		fmt.Fprintln(out)
		columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, "MEMBER\tINSTANCE\tCLIENT\tHOST\tPRINCIPAL\tREADS")
		for _, m := range d.Members {
			fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Printable(m.ID), orNone(m.Instance), orNone(m.ClientID),
				terminal.Printable(strings.TrimPrefix(m.Host, "/")), terminal.OrUnknown(m.Principal), reads(m))
		}
		columns.Flush()
	})
}

// reads are the partitions of a member: orders:0,1 payments:3.
func reads(m client.GroupMember) string {
	var all []string
	for _, a := range m.Assigned {
		numbers := make([]string, len(a.Partitions))
		for i, p := range a.Partitions {
			numbers[i] = strconv.Itoa(int(p))
		}
		all = append(all, terminal.Printable(a.Topic)+":"+strings.Join(numbers, ","))
	}
	if m.Truncated {
		all = append(all, "...")
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, " ")
}

func newEvict(c *terminal.Terminal) *cobra.Command {
	command := c.OneGroup(&cobra.Command{
		Use:   "evict GROUP [MEMBER]",
		Short: "Remove one member of a consumer group, or all of them",
		Long: `Remove a member from a consumer group, by its id or that of its instance, or without
MEMBER all members. Other members get its partitions. A running client joins again; to keep
it out, remove its rights first: strandline grant remove, user remove or token revoke.`,
		Example: "  strandline group evict billing consumer-1-5f2c\n  strandline group evict billing",
		RunE: func(command *cobra.Command, args []string) error {
			member := ""
			if len(args) > 1 {
				if member = args[1]; member == "" {
					return terminal.Misused(command, "MEMBER is empty; without it all members are evicted")
				}
			}
			return c.WithChange(func(admin *client.Admin) error {
				evicted, err := admin.EvictMembers(command.Context(), args[0], member)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Group   string `json:"group"`
					Evicted int    `json:"evicted"`
				}{args[0], evicted}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "evicted %s of group %s\n", terminal.Counted(int64(evicted), "member"), args[0])
				})
			})
		},
	})
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) > 1 {
			return terminal.Named("GROUP", "MEMBER")(command, args)
		}
		return terminal.Named("GROUP")(command, args)
	}
	return command
}

func newDelete(c *terminal.Terminal) *cobra.Command {
	var yes bool
	command := c.OneGroup(&cobra.Command{
		Use:   "delete GROUP",
		Short: "Delete a consumer group and its committed offsets",
		Long: `Delete a consumer group and its committed offsets. It is refused while the group has
members. On a terminal it asks first, unless --yes is given.`,
		Example: "  strandline group delete billing\n  strandline group delete billing --yes",
		RunE: func(command *cobra.Command, args []string) error {
			if err := c.Confirm(command, yes, fmt.Sprintf("Delete group %s with what it has committed, for ever?", args[0])); err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.DeleteGroup(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Group   string `json:"group"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, "deleted group %s\n", args[0]) })
			})
		},
	})
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}
