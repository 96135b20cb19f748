package bench

import (
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchMixed(c *terminal.Terminal) *cobra.Command {
	var (
		common    benchFlags
		targets   targetFlags
		load      workload.Mixed
		value     = terminal.Size(1 << 10)
		trimEvery = terminal.Duration(2 * time.Second)
		bootEvery = terminal.Duration(time.Second)
		span      limit.Span
	)
	command := &cobra.Command{
		Use:   "mixed",
		Short: "Throughput of appends, tails, long reads and trims at once",
		Long: `Run four loads at once for a set time: workers append, tails follow the end,
bootstrapping readers read the whole log repeatedly, and the log is trimmed behind
them. Every tail verifies with a running hash that it received each acknowledged record
once and in order.`,
		Example: "  strandline bench mixed --duration 30s --out results\n  strandline bench mixed --boots 0 --trim-every 0s",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSpan(command, span); err != nil {
				return err
			}
			load.ValueBytes, load.TrimEvery, load.BootEvery = int(value), time.Duration(trimEvery), time.Duration(bootEvery)
			load.Warmup, load.Duration = span.Warmup, span.Duration
			if err := terminal.NotNegative(command, "tails", "boots", "keep"); err != nil {
				return err
			}
			if load.TrimEvery == 0 {
				if err := terminal.Useless(command, "with --trim-every 0", "keep"); err != nil {
					return err
				}
			}
			if load.Boots == 0 {
				if err := terminal.Useless(command, "with --boots 0", "boot-every"); err != nil {
					return err
				}
			}
			if err := load.Validate(); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				return b.suite.Mixed(b.ctx, s, load)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.IntVar(&load.Writers, "writers", 4, "connections that append, one request outstanding on each")
	flags.IntVar(&load.Workers, "workers", 32, "appends outstanding, over all writers")
	flags.Var(&value, "value", "size of a value, at least 32B")
	flags.IntVar(&load.Tails, "tails", 2, "readers that follow the end")
	flags.IntVar(&load.Boots, "boots", 1, "bootstrapping readers, each of which reads the whole log repeatedly")
	flags.Var(&bootEvery, "boot-every", "the pause before each of these reads")
	flags.Var(&trimEvery, "trim-every", "how often the log is trimmed; 0: never")
	flags.Int64Var(&load.Keep, "keep", 50_000, "records that a trim leaves")
	spanFlags(flags, &span, limit.Span{Warmup: time.Second, Duration: 15 * time.Second})
	return command
}
