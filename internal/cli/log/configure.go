package log

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogConfigure(c *terminal.Terminal) *cobra.Command {
	var (
		age    terminal.Duration
		bytes  terminal.Size
		fenced bool
		copies int
		rule   client.PlacementRule
	)
	command := c.OneLog(&cobra.Command{
		Use:   "configure LOG",
		Short: "Change how long a log keeps its records, how many and which nodes hold it, and who may append",
		Long: `Change how long a log keeps its records, how many and which nodes hold it, and who
may append. Settings that are not given stay unchanged; 0 removes a limit. Records beyond
the new limits are trimmed within seconds.

With --replicas, replicas are added and removed while the log accepts appends; "cluster
status" shows the progress. A replica without a node is added when there is a node for it.

--spread, --voters-in, --voters-not-in, --leader-home and --read-replicas change the log's
own placement rule, as "log create" explains, and replicas move; '' removes a part.
A log without any part follows "cluster default-rule".

With --fenced, appends without a writer term are refused once a term has been
acquired: "strandline writer acquire". --fenced=false accepts them again.`,
		Example: `  strandline log configure orders --retention 7d
  strandline log configure orders --retention 0s --retention-bytes 100GiB
  strandline log configure orders --replicas 3
  strandline log configure orders --spread dc --leader-home ''
  strandline log configure orders --read-replicas dc=syd:1,dc=nyc:2
  strandline log configure orders --fenced`,
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("replicas") && copies < 1 {
				return terminal.Misused(command, "--replicas must be at least 1, not %d", copies)
			}
			return c.WithChange(func(admin *client.Admin) error {
				info, err := changeConfig(command.Context(), admin, args[0], func(config *client.LogConfig) {
					if copies > 0 {
						config.Replicas = copies
					}
					if command.Flags().Changed("retention") {
						config.Retention = time.Duration(age)
					}
					if command.Flags().Changed("retention-bytes") {
						config.RetentionBytes = int64(bytes)
					}
					if command.Flags().Changed("fenced") {
						config.Fenced = fenced
					}
					if terminal.RuleChanged(command.Flags()) {
						config.Rule = terminal.WithFlags(config.Rule, command.Flags(), rule)
					}
				})
				if err != nil {
					return err
				}
				return showLog(c, info)
			})
		},
	})
	retentionFlags(command.Flags(), &age, &bytes)
	command.Flags().IntVar(&copies, "replicas", 0, "how many `nodes` hold the log")
	command.Flags().BoolVar(&fenced, "fenced", false, fencedHelp)
	terminal.AddRuleFlags(command.Flags(), &rule)
	command.MarkFlagsOneRequired(append(slices.Clone(terminal.RuleFlags), "retention", "retention-bytes", "replicas", "fenced")...)
	return command
}

// changeConfig changes a part of a log's configuration. Where somebody else has changed
// it since it was read, it is read again.
func changeConfig(ctx context.Context, admin *client.Admin, log string, change func(*client.LogConfig)) (info client.LogInfo, err error) {
	for range 3 {
		if info, err = admin.Info(ctx, log); err != nil {
			return info, err
		}
		config := info.Config
		change(&config)
		if info, err = admin.ConfigureLog(ctx, log, config); !errors.Is(err, client.ErrPrecondition) {
			break
		}
	}
	return info, terminal.Changing(err)
}

const fencedHelp = "refuse appends without a writer term, once one has been acquired"

func retentionFlags(flags *pflag.FlagSet, age *terminal.Duration, bytes *terminal.Size) {
	flags.Var(age, "retention", "trim records older than this, such as 1m or 7d; 0: never")
	flags.Var(bytes, "retention-bytes", "trim the oldest records beyond this, such as 10GiB; 0: never")
}
