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
		Short: "What logs that nobody uses take of a node",
		Long: `Create logs, append one record to each, wait, and then measure what a node takes: of the
processor, in percent of a core; memory and disk space, for each log; and its goroutines,
which the HTTP port reports. The same is measured before the logs are created. With
several nodes the figures are means of them. The logs are deleted at the end.

The servers have to be on this machine, and their files too (--data, or &data=DIR of a
target: with several nodes the directory that holds those of all). What is out of reach is left empty.`,
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
				return terminal.Misused(command, "--logs %d: at least 1", load.Logs)
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
	flags.Var(&settle, "settle", "time between the last append and the measurement")
	flags.Var(&duration, "duration", "time that is measured, without the logs and with them")
	flags.StringSliceVar(&http, "http", nil, "`addresses` of the HTTP ports of the nodes at --server, such as 127.0.0.1:7271")
	return command
}
