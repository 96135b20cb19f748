package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
	"strandline.dev/client"
)

func newBenchRead(c *cli) *cobra.Command {
	var (
		common     benchFlags
		bytes      = size(4 << 30)
		value      = size(2 << 10)
		readers    []int
		log        string
		withLimits *bool
	)
	command := &cobra.Command{
		Use:   "read",
		Short: "Throughput of long reads by one reader and by several",
		Long: `A log is filled with records, if it is not full from an earlier run, and read
from one end to the other; several readers begin at different places and
together read everything once. Every record is checked against what was written.

If the server's files are on this machine (--data), everything is measured twice,
from the disk (uncached: the files' pages are dropped before) and from the
kernel's cache, and so is reading the same files without a log in between (cat).
Otherwise the cache is as it happens to be. The log stays for the next run;
"strandline log delete bench-read" removes it.`,
		Example: `  strandline bench read --size 1GiB --readers 1,4
  strandline bench read --data ./strandline-data --with-limits --json`,
		Args: named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load := workload.Reads{Records: int64(bytes / max(value, 1)), ValueBytes: int(value)}
			for _, n := range readers {
				if n < 1 || int64(n) > load.Records {
					return misused(command, "--readers %d: 1 to the number of records, %d", n, load.Records)
				}
			}
			target, description, _, err := c.target(command.Context(), log, client.LogConfig{})
			if err != nil {
				return err
			}
			defer target.Close()
			run, err := c.startBench(command.Context(), common, description)
			if err != nil {
				return err
			}
			return run.finish(run.reads(target, load, readers, *withLimits))
		},
	}
	flags := command.Flags()
	common.register(flags)
	flags.Var(&bytes, "size", "size of the log: values alone")
	flags.Var(&value, "value", "size of a value, at least 16B")
	flags.IntSliceVar(&readers, "readers", []int{1, 4}, "numbers of readers to measure")
	flags.StringVar(&log, "log", "bench-read", "log to fill and read; only this benchmark may append to it")
	withLimits = common.limitsFlag(flags)
	return command
}

func (b *bench) reads(target workload.Target, load workload.Reads, readers []int, withLimits bool) error {
	p := b.newProgress(true, "fill the log", load.Records, unitCount)
	_, err := load.Fill(b.ctx, target, p)
	p.Close()
	if errors.Is(err, workload.ErrForeign) {
		return hintedError{err, "choose another --log, or delete this one"}
	}
	if err != nil {
		return err
	}
	files, err := b.segments()
	if err != nil {
		return err
	}
	caches := []report.Cache{report.Uncached, report.Cached}
	if files == nil {
		caches = []report.Cache{report.Unknown}
	}
	rates := make(map[int]float64, len(readers))
	for _, cache := range caches {
		for _, n := range readers {
			// With several caches the last one counts for the ratios: the cached.
			if rates[n], err = b.readOnce(target, load, n, files, cache); err != nil {
				return err
			}
		}
	}
	if files != nil {
		for _, cache := range caches {
			if err := b.cat(files, cache); err != nil {
				return err
			}
		}
	}
	if !withLimits {
		return nil
	}
	return b.withPeer(func(peer *limit.Peer) error { return b.readLimits(peer, readers, rates) })
}

// readOnce measures one number of readers and returns MiB/s.
func (b *bench) readOnce(target workload.Target, load workload.Reads, readers int, files []string, cache report.Cache) (float64, error) {
	if err := b.prepareCache(files, cache); err != nil {
		return 0, err
	}
	p := b.newProgress(true, fmt.Sprintf("read, readers: %d, %s", readers, cache), load.Records, unitCount)
	result, err := load.Run(b.ctx, target, readers, p)
	p.Close()
	if result.Records > 0 {
		err = first(b.writer.Row(report.Read(result, cache)), err)
	}
	return result.MiBPerSecond(), err
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

// segments lists the server's files, or nothing if they are out of reach.
func (b *bench) segments() ([]string, error) {
	if b.data == "" {
		b.note("the server's files are out of reach: give --data to measure from the disk and from the cache")
		return nil, nil
	}
	files, err := limit.Segments(b.data)
	if err == nil && len(files) == 0 {
		b.note("no segments below %s", b.data)
	}
	return files, err
}

// prepareCache drops the files from the kernel's cache, or brings them in.
func (b *bench) prepareCache(files []string, cache report.Cache) error {
	switch cache {
	case report.Uncached:
		return limit.Forget(files)
	case report.Cached:
		_, err := limit.Cat(b.ctx, files)
		return err
	}
	return nil
}

// cat measures reading the files without a log in between.
func (b *bench) cat(files []string, cache report.Cache) error {
	if err := b.prepareCache(files, cache); err != nil {
		return err
	}
	moved, err := limit.Cat(b.ctx, files)
	return b.row(err, report.Cat(moved, cache))
}
