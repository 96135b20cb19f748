package bench

import (
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchLogs(c *terminal.Terminal) *cobra.Command {
	var (
		common  benchFlags
		targets targetFlags
		numbers []int
		workers int
		value   = terminal.Size(2 << 10)
		keep    = terminal.Size(256 << 20)
		span    limit.Span
	)
	command := &cobra.Command{
		Use:   "logs",
		Short: "Appends per second against the number of logs",
		Long: `Measure appends with a fixed number of workers, each of which waits for its
acknowledgement before its next append, to a log chosen at random. All share one client,
which has at most one request outstanding for each log. With more logs, each log gets
fewer appends, so fewer of them share a request, a write and a sync.

The logs are created, eight at a time, and deleted at the end; created_s is the time
until all of them accept appends. For kafka:// they are the partitions of a topic.`,
		Example: `  strandline bench logs
  strandline bench logs --logs 1,1000 --replicas 3 --repeats 3`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSpan(command, span); err != nil {
				return err
			}
			for _, n := range numbers {
				if n < 1 {
					return terminal.Misused(command, "--logs must be at least 1, not %d", n)
				}
			}
			if workers < 1 {
				return terminal.Misused(command, "--workers must be at least 1, not %d", workers)
			}
			load := suite.Logs{Appends: workload.Appends{Workers: workers, ValueBytes: int(value), Span: span}, Numbers: numbers}
			return onSubjects(c, command, common, targets, int64(keep), func(b *bench, s suite.Subject) error {
				return b.suite.Logs(b.ctx, s, load)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.IntSliceVar(&numbers, "logs", []int{1, 10, 100, 1000}, "numbers of logs to measure")
	flags.IntVar(&workers, "workers", 128, "workers in total, each with one append outstanding")
	flags.Var(&value, "value", "size of a value")
	flags.Var(&keep, "retention-bytes", "retention of each log by size")
	spanFlags(flags, &span, limit.Span{Warmup: 2 * time.Second, Duration: 5 * time.Second})
	return command
}
