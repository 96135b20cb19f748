package bench

import (
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/suite"
	"strandline.dev/internal/cli/terminal"
)

func newBenchIdle(c *terminal.Terminal) *cobra.Command {
	var (
		common   benchFlags
		targets  targetFlags
		load     suite.Idle
		settle   = terminal.Duration(20 * time.Second)
		duration = terminal.Duration(10 * time.Second)
		http     []string
	)
	command := &cobra.Command{
		Use:   "idle",
		Short: "Processor time, memory and disk space of a node with idle logs",
		Long: `Create logs, append one record to each, wait, and measure what a node uses: processor
time in percent of a core, memory and disk space for each log, and the goroutines that
the HTTP port reports. The same is measured before the logs are created. With several
nodes the figures are the means. The logs are deleted at the end.

The servers and their files must be on this machine (--data, or &data=DIR of a target;
with several nodes the parent directory of their data directories). Figures that cannot
be read are left empty.`,
		Example: `  strandline bench idle --logs 1000 --replicas 3
  strandline bench idle --data ./strandline-data --http 127.0.0.1:7271 --json`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load.Settle, load.Duration = time.Duration(settle), time.Duration(duration)
			if err := checkSpan(command, load.Span); err != nil {
				return err
			}
			if err := terminal.NotNegative(command, "settle"); err != nil {
				return err
			}
			if load.Logs < 1 {
				return terminal.Misused(command, "--logs must be at least 1, not %d", load.Logs)
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				if isServer(c, s.Address) {
					s.HTTP = http
				}
				return b.suite.Idle(b.ctx, s, load)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	_ = flags.MarkHidden("repeats") // a second run would find what the first one left
	flags.IntVar(&load.Logs, "logs", 1000, "number of logs")
	flags.BoolVar(&load.Sessions, "sessions", false, "keep the client's session in each log open meanwhile")
	flags.Var(&settle, "settle", "time between the last append and the measurement")
	flags.Var(&duration, "duration", "time of each of the two measurements, without the logs and with them")
	flags.StringSliceVar(&http, "http", nil, "`addresses` of the HTTP ports of the nodes at --server, such as 127.0.0.1:7271")
	return command
}
