package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
	"strandline.dev/client"
)

func newBenchAppends(c *cli) *cobra.Command {
	var (
		common      benchFlags
		connections []int
		workers     int
		value       = size(2 << 10)
		span        limit.Span
		log         string
		stored      durability
		keep        = size(256 << 20)
		withLimits  *bool
	)
	command := &cobra.Command{
		Use:   "appends",
		Short: "Appends per second against the number of connections",
		Long: `A fixed number of workers append, each waiting for its acknowledgement before its
next append. They are spread over more and more connections, with one request
outstanding on each; workers that share a connection share requests. A log with
group commit gives a nearly flat line.

The log is created if it is not there, trimmed by size while the benchmark runs,
and deleted at the end if it was created.`,
		Example: `  strandline bench appends
  strandline bench appends --connections 1,128 --duration 10s --with-limits
  strandline bench appends --json | jq 'select(.benchmark)'`,
		Args: named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSpan(command, span); err != nil {
				return err
			}
			for _, n := range connections {
				if n < 1 || n > workers {
					return misused(command, "--connections %d: 1 to --workers %d", n, workers)
				}
			}
			ctx := command.Context()
			config := client.LogConfig{Durability: client.Durability(stored), RetentionBytes: int64(keep)}
			target, description, created, err := c.target(ctx, log, config)
			if err != nil {
				return err
			}
			defer target.Close()
			run, err := c.startBench(ctx, common, description)
			if err == nil {
				load := workload.Appends{Workers: workers, ValueBytes: int(value), Span: span}
				err = run.finish(run.appends(target, load, connections, *withLimits))
			}
			if created {
				err = first(err, deleteLog(ctx, target))
			}
			return err
		},
	}
	flags := command.Flags()
	common.register(flags)
	flags.IntSliceVar(&connections, "connections", []int{1, 2, 4, 8, 16, 32, 64, 128}, "numbers of connections to measure")
	flags.IntVar(&workers, "workers", 128, "workers in total, each with one append outstanding")
	flags.Var(&value, "value", "size of a value")
	spanFlags(flags, &span, limit.Span{Warmup: time.Second, Duration: 5 * time.Second})
	flags.StringVar(&log, "log", "bench-appends", "log to append to")
	flags.Var(&stored, "durability", "disk or memory, if the log is created")
	flags.Var(&keep, "retention-bytes", "how much the log keeps, if it is created")
	withLimits = common.limitsFlag(flags)
	completeWords(command, "durability", "disk", "memory")
	return command
}

// appends measures one connection count after the other, then the limits and
// the ratios.
func (b *bench) appends(target workload.Target, load workload.Appends, connections []int, withLimits bool) error {
	rates := make(map[int]float64, len(connections))
	for _, n := range connections {
		p := b.newProgress(true, fmt.Sprintf("appends, connections: %d", n), (load.Warmup + load.Duration).Milliseconds(), unitNone)
		result, err := load.Run(b.ctx, target, n, p)
		p.Close()
		if result.Count > 0 {
			rates[n] = result.PerSecond()
			err = first(b.writer.Row(report.Appends(result)), err)
		}
		if err != nil {
			return err
		}
	}
	if !withLimits {
		return nil
	}
	return b.withPeer(func(peer *limit.Peer) error {
		echoes := make(map[int]float64, len(connections))
		for _, n := range slices.Compact(slices.Sorted(slices.Values(connections))) {
			rate, err := b.grpcEcho(peer, n, load.Workers)
			if err != nil {
				return err
			}
			echoes[n] = rate.PerSecond()
		}
		for _, n := range connections {
			if err := b.writer.Row(report.Ratio("appends", grpcEcho, n, rates[n]/echoes[n])); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteLog cleans up, also after Ctrl-C.
func deleteLog(ctx context.Context, target *driver.Strandline) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	return target.Delete(ctx)
}
