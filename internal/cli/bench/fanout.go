package bench

import (
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchFanOut(c *terminal.Terminal) *cobra.Command {
	var (
		common  benchFlags
		targets targetFlags
		load    workload.FanOut
		tails   []int
		value   = terminal.Size(2 << 10)
		span    limit.Span
	)
	command := &cobra.Command{
		Use:   "fan-out",
		Short: "Latency of appends against the number of readers that follow the log",
		Long: `Append on a schedule, whether earlier appends have been answered or not, while
different numbers of readers, each with its own connections, follow the end of the log.
Latency is counted from the scheduled time of an append: append_ until it is
acknowledged, deliver_ until a reader has the record, all_ until the last reader has it.
If a reader misses a record, the run fails.`,
		Example: "  strandline bench fan-out --tails 0,1000 --rate 600",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load.ValueBytes, load.Span = int(value), span
			if err := checkSpan(command, span); err != nil {
				return err
			}
			if err := terminal.NotNegative(command, "rate"); err != nil {
				return err
			}
			if err := load.Validate(); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			for _, n := range tails {
				if n < 0 {
					return terminal.Misused(command, "--tails must be 0 or more, not %d", n)
				}
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				return b.suite.FanOut(b.ctx, s, suite.FanOut{FanOut: load, Tails: tails})
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.IntSliceVar(&tails, "tails", []int{0, 1000}, "numbers of readers to measure")
	flags.Float64Var(&load.PerSecond, "rate", 600, "appends per second on the schedule")
	flags.IntVar(&load.Writers, "writers", 4, "connections that append")
	flags.IntVar(&load.Workers, "workers", 32, "the most appends outstanding, over all writers")
	flags.Var(&value, "value", "size of a value, at least 16B")
	spanFlags(flags, &span, limit.Span{Warmup: 2 * time.Second, Duration: 10 * time.Second})
	return command
}
