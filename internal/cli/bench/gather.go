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
Kafka, and measure durable appends to each of the three over 1 to 128 connections, on
the disk itself and with 2 ms added to each sync.

The benchmark shows whether a proxy in front of Kafka can do group commit. The proxy
sends the appends that arrive for a partition during a request together in the next
one, as one batch, so the broker syncs once for all of them. It has costs: one more hop
and process for every append; no idempotent producers, since a merged batch has no
sequence, so an append that is sent again may be stored twice; no compression, which
the proxy would have to undo; and one more machine that can fail, or a second one
without an order between the two.

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
	flags.Var(&slow, "fsync-delay", "time added to each sync in the runs with a slow disk; 0: no such runs")
	flags.IntVar(&repeats, "repeats", 3, "how often each measurement is repeated; the table has the medians")
	flags.StringVar(&proxy, "proxy", "", "run as the proxy, on this `address`")
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
