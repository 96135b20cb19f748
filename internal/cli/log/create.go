package log

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogCreate(c *terminal.Terminal) *cobra.Command {
	var (
		age    terminal.Duration
		bytes  terminal.Size
		stored terminal.Durability
		copies int
		fenced bool
		rule   client.PlacementRule
	)
	command := &cobra.Command{
		Use:   "create LOG",
		Short: "Create a log",
		Long: `Create a log. A name is 1 to 249 characters out of a-z A-Z 0-9 . _ -; names
that begin with "_strandline" are reserved, as are "_catalog", "_offsets",
"__consumer_offsets" and "__transaction_state". Durability is the condition of
an acknowledgement: "disk" means fsynced on a majority of replicas, "memory" means in the memory of a majority;
it cannot be changed later. With 3 replicas a log survives the loss of one node,
with 5 that of two. A replica without a node is added when there is a node for it:
until then "cluster status" shows it as missing.

--spread, --voters-in, --voters-not-in, --leader-home and --read-replicas set the nodes
for the replicas and the leader, by the labels of nodes (serve --label); a log without
them follows "cluster default-rule". With --spread dc, none of three datacenters has a
majority of the replicas, and each of two has a replica. --read-replicas dc=syd:1 adds a
replica there that serves readers ("read --near") and never votes: an append does not
wait for it, and it does not make the log safer. A rule that the nodes cannot satisfy is refused.`,
		Example: `  strandline log create orders
  strandline log create orders --retention 1m --retention-bytes 10GiB
  strandline log create orders --replicas 3
  strandline log create orders --spread dc --leader-home dc=fra,dc=ams
  strandline log create orders --spread dc --voters-not-in dc=syd --read-replicas dc=syd:1
  strandline log create scratch --durability memory`,
		Args:              terminal.Named("LOG"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("replicas") && copies < 1 {
				return terminal.Misused(command, "--replicas must be at least 1, not %d", copies)
			}
			config := client.LogConfig{
				Durability:     client.Durability(stored),
				Retention:      time.Duration(age),
				RetentionBytes: int64(bytes),
				Replicas:       copies,
				Fenced:         fenced,
			}
			if !rule.Empty() {
				config.Rule = &rule
			}
			return c.WithChange(func(admin *client.Admin) error {
				info, err := admin.CreateLog(command.Context(), args[0], config)
				if err != nil {
					return terminal.Changing(err)
				}
				return c.Show(newLogJSON(info), func(out io.Writer) {
					fmt.Fprintf(out, "created log %s (%v, %s)\n", info.Name, info.Config.Durability, replicas(info))
					if info.Problem != "" {
						fmt.Fprintln(out, info.Problem)
					}
				})
			})
		},
	}
	flags := command.Flags()
	flags.Var(&stored, "durability", "disk or memory")
	flags.IntVar(&copies, "replicas", 0, "how many `nodes` hold the log (default: 3, or as many as there are nodes)")
	retentionFlags(flags, &age, &bytes)
	flags.BoolVar(&fenced, "fenced", false, fencedHelp)
	terminal.AddRuleFlags(flags, &rule)
	terminal.CompleteWords(command, "durability", "disk", "memory")
	return command
}
