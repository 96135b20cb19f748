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
	flags.StringVar(&f.options, "options", "", "`file` with the list of options to measure, instead of our own")
	flags.StringVar(&f.samples, "samples", "", "`directory` with sample records, a file each, instead of our own 50")
	spanFlags(flags, &f.span, limit.Span{Warmup: 500 * time.Millisecond, Duration: standard})
}

// registerCheck is for benchmarks whose logs keep everything.
func (f *matrixFlags) registerCheck(flags *pflag.FlagSet) {
	flags.BoolVar(&f.check, "check", true, "read everything back and compare")
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
		err = errors.New("no file in " + f.samples)
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
		Short: "Sample records of a graph store, sent in every way that a list of options has",
		Long: `Records picked at random out of 50 samples are sent for a fixed time: one by one or
as fast as it goes, with and without compression, in small and large requests.
The list of options is a file; --print-options prints ours, which explains itself
and is a beginning for your own. Every measurement has a log of its own, which is
read back, compared with what was sent, and deleted.`,
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
	flags.BoolVar(&listing, "print-options", false, "print our list of options, and do nothing")
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
		Short: "Does throughput depend on how long records are kept?",
		Long: `Sample records are sent to logs that keep their records for different times, one
by one and as fast as it goes. What a log keeps shorter than it is measured is
trimmed meanwhile, so nothing is read back; the rows say how much of what was
sent had been trimmed by the end. A retention that is not shorter than --duration
trims nothing and measures only that it costs nothing to have.`,
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
		Short: "The same on a disk, on a disk in memory, and on a log in memory",
		Long: `Nodes of this program are started, one with its files on a disk and one with its
files on a file system in memory, and, with --with-kafka, a real Kafka in both
places. Sample records are sent to each, also to logs that wait for no disk:
Strandline's in memory and Kafka's by default. Unless --options says so it is a
part of the matrix: one by one, as fast as it goes, with compression, with large
requests, and with both.

With --target it is the targets that are measured, which should differ by where
their files are; &disk=WORDS names it in the tables.`,
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
					return terminal.Misused(command, "--%s %s: there is no such directory", flag, directory)
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
