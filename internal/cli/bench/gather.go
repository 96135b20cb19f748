package bench

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/gather"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/internal/cli/terminal"
)

func newBenchGather(c *terminal.Terminal) *cobra.Command {
	var (
		common        benchFlags
		fleet         fleetFlags
		plan          = suite.DefaultPlan()
		load          = plan.Appends
		slow          = terminal.Duration(2 * time.Millisecond)
		repeats       int
		proxy, broker string
	)
	command := &cobra.Command{
		Use:   "gather",
		Short: "Measure Kafka behind a proxy that gathers appends",
		Long: `Start one node of Strandline, a real Apache Kafka, and a proxy in front of
the Kafka, and measure durable appends to each of the three over 1 to 128
connections, on the disk as it is and on one that syncs 2 ms more slowly.

The proxy answers a question: is group commit something that Kafka lacks, or
something that can be put in front of it? Appends that arrive for a partition
while a request is under way leave together in the next one, as one batch, so
the broker syncs once for all of them. What it costs besides: one more hop and
process for every append; idempotent producers, because a merged batch has no
sequence of its own, so an append that is sent again may be stored twice;
compression, which would have to be undone; and a machine that must not fail,
or a second one, and then no order between the two.

Kafka is fetched once, as its published Maven artifacts; that needs java and mvn.`,
		Example: "  strandline bench gather --out results",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if proxy != "" {
				return gatherAppends(command, proxy, broker)
			}
			if err := terminal.NotNegative(command, "repeats"); err != nil {
				return err
			}
			ctx := command.Context()
			common.fleetDisk = os.TempDir()
			started, err := fleet.fleet(ctx, c)
			if err != nil {
				return err
			}
			common.fleetSoftware = fleet.software(ctx)
			run, err := startBench(c, ctx, common, repeats)
			if err != nil {
				return err
			}
			err = run.suite.Gather(ctx, started, suite.Gather{Appends: load, WarmUp: plan.WarmUp, SlowDisk: time.Duration(slow)})
			return run.finish(err)
		},
	}
	flags := command.Flags()
	common.registerOutput(flags)
	fleet.register(flags)
	// Without a Kafka there is nothing to put a proxy in front of.
	fleet.withKafka = true
	_ = flags.MarkHidden("with-kafka")
	flags.IntSliceVar(&load.Connections, "connections", []int{1, 2, 4, 8, 16, 32, 64, 128}, "connection counts to measure")
	flags.Var(&slow, "fsync-delay", "how much longer a sync takes in the runs with a slow disk; 0: no such runs")
	flags.IntVar(&repeats, "repeats", 3, "how often each is measured; the table has the medians")
	flags.StringVar(&proxy, "proxy", "", "be the proxy: listen on this `address`")
	flags.StringVar(&broker, "broker", "", "the `address` of the Kafka broker behind the proxy")
	_, _ = flags.MarkHidden("proxy"), flags.MarkHidden("broker")
	common.span = limit.Span{Warmup: 250 * time.Millisecond, Duration: time.Second}
	return command
}

// gatherAppends is the proxy itself, which bench starts as a process of its own.
func gatherAppends(command *cobra.Command, address, broker string) error {
	if broker == "" {
		return terminal.Misused(command, "--proxy needs --broker")
	}
	p, err := gather.Listen(address, broker)
	if err != nil {
		return err
	}
	<-command.Context().Done()
	return p.Close()
}
