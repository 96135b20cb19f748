package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/client"
)

func newBench(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a running server, and this machine's own limits",
		Long: `Measure a running server, and this machine's own limits. A figure means something
only beside what the machine can do at best in the same run: --with-limits
measures that as well and prints the ratios. Ctrl-C prints what there is by then.

With --json, every line is one object: an environment, a benchmark, a limit or a
ratio.`,
		Example: `  strandline bench appends --connections 1,128 --with-limits
  strandline bench limits --json`,
	},
		newBenchAppends(c),
		newBenchRead(c),
		newBenchLimits(c),
		newBenchPeer(c),
	)
}

// benchFlags are common to all benchmarks.
type benchFlags struct {
	data string
	csv  string
	span limit.Span // of each single limit
}

func (f *benchFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.data, "data", "", "data `directory` of the server, if it is on this machine (default "+defaultData+" if that exists)")
	flags.StringVar(&f.csv, "csv", "", "write the rows to this CSV `file` as well")
}

// spanFlags are the times of one measurement.
func spanFlags(flags *pflag.FlagSet, s *limit.Span, standard limit.Span) {
	*s = standard
	flags.Var((*duration)(&s.Warmup), "warmup", "time before each measurement begins to count")
	flags.Var((*duration)(&s.Duration), "duration", "time that each measurement counts")
}

// checkSpan refuses to measure for no time at all.
func checkSpan(command *cobra.Command, s limit.Span) error {
	if s.Duration <= 0 {
		return misused(command, "--duration %v: nothing can be measured in no time", duration(s.Duration))
	}
	return nil
}

// limitsFlag belongs to a benchmark that can measure limits beside itself.
func (f *benchFlags) limitsFlag(flags *pflag.FlagSet) *bool {
	f.span = defaultSpan
	return flags.Bool("with-limits", false, "measure the machine's limits in the same run, and print the ratios")
}

// defaultSpan is enough for a limit: it comes out the same within some percent.
var defaultSpan = limit.Span{Warmup: 500 * time.Millisecond, Duration: 2 * time.Second}

// bench is one run of a benchmark command.
type bench struct {
	*cli
	benchFlags
	ctx     context.Context
	writer  report.Writer
	scratch *limit.Scratch // on the server's disk, or else here
	files   []io.Closer
}

// startBench opens the outputs and prints what the figures will depend on. log
// describes the log that takes part, if one does.
func (c *cli) startBench(ctx context.Context, flags benchFlags, log string) (*bench, error) {
	b := &bench{cli: c, benchFlags: flags, ctx: ctx, writer: report.Table(c.out)}
	if c.json {
		b.writer = report.JSON(c.out)
	}
	if flags.csv != "" {
		file, err := os.Create(flags.csv)
		if err != nil {
			return nil, err
		}
		b.files = append(b.files, file)
		b.writer = report.Both(b.writer, report.CSV(file))
	}
	if b.data == "" && isDirectory(defaultData) {
		b.data = defaultData
	}
	environment, err := b.environment(log)
	if err == nil {
		err = b.writer.Environment(environment)
	}
	if err != nil {
		return nil, b.finish(err)
	}
	return b, nil
}

// finish prints what is held back, also after err, and returns the first thing
// that went wrong.
func (b *bench) finish(err error) error {
	err = first(err, b.writer.Close())
	for _, file := range b.files {
		err = first(err, file.Close())
	}
	return err
}

// environment looks at the machine and measures what a sync costs.
func (b *bench) environment(log string) (report.Environment, error) {
	directory, remark := b.data, ""
	if directory == "" {
		directory, remark = ".", ", which may not be the server's disk (--data)"
	}
	disk, err := limit.LookAtDisk(directory)
	if err != nil {
		return report.Environment{}, err
	}
	if b.scratch, err = limit.NewScratch(directory); err != nil {
		return report.Environment{}, err
	}
	b.files = append(b.files, b.scratch)
	cost, err := b.scratch.Sync(b.ctx, 2<<10, syncTime)
	return report.Environment{
		Machine:   limit.Machine(),
		Disk:      fmt.Sprintf("%s (%s)%s", directory, disk.FileSystem, remark),
		Fdatasync: cost,
		Log:       log,
	}, err
}

// syncTime gives several thousand syncs on a fast disk and dozens on a slow one.
const syncTime = 500 * time.Millisecond

// note says something that is no result, to people only.
func (c *cli) note(format string, args ...any) {
	if !c.json {
		fmt.Fprintf(c.err, "note: "+format+"\n", args...)
	}
}

// target prepares the log of a benchmark and describes it for the table.
func (c *cli) target(ctx context.Context, log string, config client.LogConfig) (t *driver.Strandline, description string, created bool, err error) {
	t, err = driver.NewStrandline(c.servers, log, c.clientOptions()...)
	if err != nil {
		return nil, "", false, c.explainDial(err)
	}
	info, created, err := t.Create(ctx, config)
	if err != nil {
		return nil, "", false, errors.Join(err, t.Close())
	}
	return t, fmt.Sprintf("%s, %s", log, promise(info.Config.Durability)), created, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
