package bench

import (
	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchRead(c *terminal.Terminal) *cobra.Command {
	var (
		common     benchFlags
		targets    targetFlags
		bytes      = terminal.Size(4 << 30)
		value      = terminal.Size(2 << 10)
		readers    []int
		log        string
		inTurn     bool
		withLimits *bool
	)
	command := &cobra.Command{
		Use:   "read",
		Short: "Throughput of long reads by one reader and by several",
		Long: `Fill a log with records, unless an earlier run has, and read it from the first record
to the last; several readers begin at different offsets and together read each record
once. The benchmark compares every record with the one written (client=fetch decodes no
records: it checks the batches).

If the files are on this machine (--data, or &data=DIR of a target), each read is
measured twice, from the disk (uncached: the files' pages are dropped before) and from
the kernel's cache, and so is reading the same files without a log (cat). Otherwise the
state of the cache is unknown. The log stays for the next run; "strandline log delete
bench-read" removes it.

With --in-turn, the targets are read from the cache only: each once, and all of them
again for each of --repeats, so that a change in the speed of the machine affects all
targets alike. Targets of one system read one log, which the first of them fills.`,
		Example: `  strandline bench read --size 1GiB --readers 1,4
  strandline bench read --in-turn --repeats 5 --target kafka://127.0.0.1:9092 --target kafka://127.0.0.1:9192
  strandline bench read --data ./strandline-data --with-limits --json`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load := suite.Reads{
				Reads:   workload.Reads{Records: int64(bytes / max(value, 1)), ValueBytes: int(value)},
				Readers: readers, Log: log, Keep: true, Cat: true,
			}
			if err := load.Validate(); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			for _, n := range readers {
				if n < 1 || int64(n) > load.Records {
					return terminal.Misused(command, "--readers must be 1 to the number of records, %d, not %d", load.Records, n)
				}
			}
			if inTurn {
				return onAllSubjects(c, command, common, targets, 0, func(b *bench, all []suite.Subject) error {
					return b.suite.ReadsInTurn(b.ctx, all, load)
				})
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				rates, err := b.suite.Reads(b.ctx, s, load)
				if err != nil || !*withLimits {
					return err
				}
				return b.withPeer(func(peer *limit.Peer) error { return b.readLimits(peer, readers, rates) })
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.Var(&bytes, "size", "size of the log, counting only values")
	flags.Var(&value, "value", "size of a value, at least 16B")
	flags.IntSliceVar(&readers, "readers", []int{1, 4}, "numbers of readers to measure")
	flags.StringVar(&log, "log", "bench-read", "log to fill and read; only this benchmark may append to it")
	flags.BoolVar(&inTurn, "in-turn", false, "read all targets in turn, from the cache")
	withLimits = common.limitsFlag(flags)
	command.MarkFlagsMutuallyExclusive("in-turn", "with-limits")
	return command
}

func (b *bench) readLimits(peer *limit.Peer, readers []int, rates map[int]float64) error {
	streams := make(map[int]float64, len(readers))
	for _, n := range readers {
		moved, err := b.grpcStream(peer, n)
		if err != nil {
			return err
		}
		streams[n] = moved.MiBPerSecond()
	}
	for _, n := range readers {
		if err := b.writer.Row(report.Ratio("read", grpcStream, n, rates[n]/streams[n])); err != nil {
			return err
		}
	}
	return nil
}
