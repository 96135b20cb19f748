package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

// matrixFlags belong to all benchmarks that send samples in configurations.
type matrixFlags struct {
	options string
	samples string
	span    limit.Span
	check   bool
}

func (f *matrixFlags) register(flags *pflag.FlagSet, standard time.Duration) {
	flags.StringVar(&f.options, "options", "", "`file` with the list of options to measure, instead of the built-in list")
	flags.StringVar(&f.samples, "samples", "", "`directory` with sample records, a file each, instead of the built-in 50")
	spanFlags(flags, &f.span, limit.Span{Warmup: 500 * time.Millisecond, Duration: standard})
}

// registerCheck is for benchmarks whose logs keep everything.
func (f *matrixFlags) registerCheck(flags *pflag.FlagSet) {
	flags.BoolVar(&f.check, "check", true, "read all records back and compare them")
}

// load is what the flags ask for; standard is the list of options if --options is not set.
func (f *matrixFlags) load(command *cobra.Command, standard string) (suite.Matrix, error) {
	if err := checkSpan(command, f.span); err != nil {
		return suite.Matrix{}, err
	}
	m := suite.Matrix{Matrix: workload.Matrix{Samples: workload.Samples(), Span: f.span, Check: f.check}}
	text := standard
	if f.options != "" {
		data, err := os.ReadFile(f.options)
		if err != nil {
			return m, err
		}
		text = string(data)
	}
	var err error
	if m.Configurations, err = workload.ParseConfigurations(strings.NewReader(text)); err != nil {
		return m, err
	}
	if f.samples == "" {
		return m, nil
	}
	m.Samples = nil
	err = filepath.WalkDir(f.samples, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		m.Samples = append(m.Samples, data)
		return err
	})
	if err == nil && len(m.Samples) == 0 {
		err = errors.New("--samples " + f.samples + " contains no file")
	}
	return m, err
}

func newBenchMatrix(c *terminal.Terminal) *cobra.Command {
	var (
		common  benchFlags
		targets targetFlags
		matrix  matrixFlags
		listing bool
	)
	command := &cobra.Command{
		Use:   "matrix",
		Short: "Throughput of sample records with every combination of options in a list",
		Long: `Send records picked at random out of 50 samples for a fixed time: one by one or as
fast as possible, with and without compression, in small and large requests. The list
of options is a file; --print-options prints the built-in list with its explanation,
as a template. Every measurement creates a log, reads it back, compares it with the
records sent, and deletes it.`,
		Example: `  strandline bench matrix --repeats 3 --out results
  strandline bench matrix --print-options > mine.txt
  strandline bench matrix --options mine.txt --target "kafka://127.0.0.1:9092?client=sarama"`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if listing {
				_, err := c.Out.Write([]byte(workload.DefaultConfigurations))
				return err
			}
			load, err := matrix.load(command, workload.DefaultConfigurations)
			if err != nil {
				return terminal.Misused(command, "%w", err)
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				return b.suite.Matrix(b.ctx, s, load)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	matrix.register(flags, 5*time.Second)
	matrix.registerCheck(flags)
	flags.BoolVar(&listing, "print-options", false, "print the built-in list of options, and do nothing else")
	return command
}

func newBenchRetention(c *terminal.Terminal) *cobra.Command {
	const day = 24 * time.Hour
	var (
		common     benchFlags
		targets    targetFlags
		matrix     matrixFlags
		retentions = durations{7 * day, time.Minute, 5 * time.Second, time.Second}
	)
	command := &cobra.Command{
		Use:   "retention",
		Short: "Throughput against the retention of a log",
		Long: `Send sample records to logs with different retentions, one by one and as fast as
possible. If the retention is shorter than --duration, the log is trimmed during the
run, so the records are not read back; each row gives the share that had been trimmed
at the end. A longer retention trims nothing, and measures only the cost of having one.`,
		Example: `  strandline bench retention
  strandline bench retention --retention 1h,1s --duration 30s`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load, err := matrix.load(command, workload.RetentionConfigurations)
			if err != nil {
				return terminal.Misused(command, "%w", err)
			}
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				return b.suite.Retention(b.ctx, s, load, retentions)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	matrix.register(flags, 10*time.Second)
	flags.Var(&retentions, "retention", "how long records are kept")
	return command
}

func newBenchRAMDisk(c *terminal.Terminal) *cobra.Command {
	var (
		common    benchFlags
		targets   targetFlags
		matrix    matrixFlags
		fleet     fleetFlags
		disk, ram string
	)
	command := &cobra.Command{
		Use:   "ramdisk",
		Short: "Throughput on a disk, on a file system in memory, and of logs in memory",
		Long: `Start two nodes of this program, one with its files on a disk and one with its files
on a file system in memory, and with --with-kafka a real Kafka in both places. Send
sample records to each, also to logs that do not wait for a disk: memory logs of
Strandline, and logs with Kafka's default. Without --options, it runs a part of the
matrix: one by one, as fast as possible, with compression, with large requests, and
with both.

With --target, it measures the given targets instead. They should differ in the place
of their files; &disk=WORDS names that in the tables.`,
		Example: `  strandline bench ramdisk
  strandline bench ramdisk --options whole-matrix.txt
  strandline bench ramdisk --with-kafka --ram /dev/shm
  strandline bench ramdisk --target "strandline://127.0.0.1:7171?disk=tmpfs"`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load, err := matrix.load(command, workload.RAMDiskConfigurations)
			if err != nil {
				return terminal.Misused(command, "%w", err)
			}
			if err := fleet.check(command); err != nil {
				return err
			}
			if len(targets.targets) > 0 {
				if err := terminal.Useless(command, "with --target", "with-kafka", "host", "disk", "ram"); err != nil {
					return err
				}
				return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
					return b.suite.RAMDisk(b.ctx, s, load)
				})
			}
			if err := terminal.Useless(command, "without --target", "durability", "replicas", "tls", "data"); err != nil {
				return err
			}
			for flag, directory := range map[string]string{"disk": disk, "ram": ram} {
				if !terminal.IsDirectory(directory) {
					return terminal.Misused(command, "--%s %s: no such directory", flag, directory)
				}
			}
			common.fleetDisk, common.fleetSoftware = disk, fleet.software(command.Context())
			run, err := startBenchOn(c, command, &common, targets)
			if err != nil {
				return err
			}
			f, err := fleet.fleet(run.ctx, c)
			if err == nil {
				err = run.suite.RAMDisks(run.ctx, f, load, disk, ram)
			}
			return run.finish(err)
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	matrix.register(flags, 5*time.Second)
	matrix.registerCheck(flags)
	fleet.register(flags)
	flags.StringVar(&disk, "disk", os.TempDir(), "`directory` on the disk")
	flags.StringVar(&ram, "ram", "/dev/shm", "`directory` on a file system in memory")
	return command
}
