package bench

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchAppends(c *terminal.Terminal) *cobra.Command {
	var (
		common      benchFlags
		targets     targetFlags
		connections []int
		workers     int
		value       = terminal.Size(2 << 10)
		span        limit.Span
		log         string
		rate        float64
		keep        = terminal.Size(256 << 20)
		explain     bool
		withLimits  *bool
	)
	command := &cobra.Command{
		Use:   "appends",
		Short: "Appends per second against the number of connections",
		Long: `Measure appends with a fixed number of workers, each of which waits for its
acknowledgement before its next append. They are spread over more and more connections,
with one request outstanding on each; workers that share a connection share requests. A
log with group commit gives a nearly flat line.

With --rate the appends follow a schedule instead, whether earlier ones have been
answered or not, and latency is counted from the scheduled time of an append: the
latency seen by independent users.

With --explain the appends request the time of each stage, and a second table shows, for
each stage, its start within the latency, its share of it, and its mean, median and 99th
percentile. The stages follow each other and add up. The times of the other replicas
overlap with them and are shown below, with the percentage of appends that each had
acknowledged by then. docs/tracing.md describes the stages.

The log is created if it does not exist, trimmed by size during the run, and deleted at
the end if it was created.`,
		Example: `  strandline bench appends
  strandline bench appends --connections 1,128 --duration 10s --with-limits
  strandline bench appends --rate 5000 --connections 8
  strandline bench appends --explain --connections 1,128
  strandline bench appends --json | jq 'select(.benchmark)'`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSpan(command, span); err != nil {
				return err
			}
			if err := terminal.NotNegative(command, "rate"); err != nil {
				return err
			}
			for _, n := range connections {
				if n < 1 || n > workers {
					return terminal.Misused(command, "--connections must be 1 to %d (--workers), not %d", workers, n)
				}
			}
			load := suite.Appends{
				Appends: workload.Appends{
					Workers: workers, ValueBytes: int(value), PerSecond: rate, Span: span, Sending: workload.Sending{Explain: explain},
				},
				Connections: connections, Log: log,
			}
			return onSubjects(c, command, common, targets, int64(keep), func(b *bench, s suite.Subject) error {
				rates, err := b.suite.Appends(b.ctx, s, load)
				if err != nil || !*withLimits {
					return err
				}
				return b.appendsLimits(load, rates)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.IntSliceVar(&connections, "connections", []int{1, 2, 4, 8, 16, 32, 64, 128}, "numbers of connections to measure")
	flags.IntVar(&workers, "workers", 128, "workers in total, each with one append outstanding")
	flags.Var(&value, "value", "size of a value")
	flags.Float64Var(&rate, "rate", 0, "appends per second on a schedule, over all workers (default: the next append after each answer)")
	flags.BoolVar(&explain, "explain", false, "print the time of an append by stage")
	spanFlags(flags, &span, limit.Span{Warmup: time.Second, Duration: 5 * time.Second})
	flags.StringVar(&log, "log", "bench-appends", "log to append to")
	flags.Var(&keep, "retention-bytes", "retention of the log by size, if it is created")
	withLimits = common.limitsFlag(flags)
	return command
}

// appendsLimits measures the limits, and the ratios of the rates to them.
func (b *bench) appendsLimits(load suite.Appends, rates map[int]float64) error {
	return b.withPeer(func(peer *limit.Peer) error {
		echoes := make(map[int]float64, len(load.Connections))
		for _, n := range slices.Compact(slices.Sorted(slices.Values(load.Connections))) {
			rate, err := b.grpcEcho(peer, n, load.Workers)
			if err != nil {
				return err
			}
			echoes[n] = rate.PerSecond()
		}
		for _, n := range load.Connections {
			if err := b.writer.Row(report.Ratio("appends", grpcEcho, n, rates[n]/echoes[n])); err != nil {
				return err
			}
		}
		return nil
	})
}
