package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/bench/kafka"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/suite"
	"strandline.dev/internal/cli/serve"
	"strandline.dev/internal/cli/terminal"
)

// fleetFlags say which systems a benchmark starts itself.
type fleetFlags struct {
	withKafka bool
	version   string
	directory string
	host      string
}

func (f *fleetFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.withKafka, "with-kafka", false, "also start a real Apache Kafka; needs java and mvn")
	flags.StringVar(&f.version, "kafka-version", kafka.DefaultVersion, "`version` of Kafka")
	flags.StringVar(&f.directory, "kafka-directory", "", "`directory` in which Kafka is stored after it was fetched (default in the user's cache)")
	flags.StringVar(&f.host, "host", "127.0.0.1", "loopback `address` on which all servers listen, at free ports")
}

// check refuses what does nothing without Kafka.
func (f *fleetFlags) check(command *cobra.Command) error {
	if f.withKafka {
		return nil
	}
	return terminal.Useless(command, "without --with-kafka", "kafka-version", "kafka-directory", "sarama145")
}

// fleet makes ready what the flags ask for.
func (f *fleetFlags) fleet(ctx context.Context, c *terminal.Terminal) (suite.Fleet, error) {
	program, err := os.Executable()
	if err != nil {
		return suite.Fleet{}, err
	}
	fleet := suite.Fleet{
		Program: program, Directory: os.TempDir(), Host: f.host, WithKafka: f.withKafka,
		KafkaPort: serve.New(c).Flags().Lookup("kafka") != nil,
	}
	if !f.withKafka {
		return fleet, nil
	}
	directory := f.directory
	if directory == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fleet, fmt.Errorf("find a directory for Kafka: %w; give --kafka-directory", err)
		}
		directory = filepath.Join(cache, "strandline", "kafka-"+f.version)
	}
	say(c, "Kafka %s in %s", f.version, directory)
	fleet.Kafka, err = kafka.Fetch(ctx, directory, f.version)
	return fleet, err
}

// software is what is started beside Strandline.
func (f *fleetFlags) software(ctx context.Context) string {
	if !f.withKafka {
		return ""
	}
	return ", Apache Kafka " + f.version + " on " + kafka.Java(ctx)
}

func newBenchAll(c *terminal.Terminal) *cobra.Command {
	var (
		common  benchFlags
		fleet   fleetFlags
		quick   bool
		slow    = terminal.Duration(2 * time.Millisecond)
		ram     string
		older   string
		repeats int
	)
	command := &cobra.Command{
		Use:   "all",
		Short: "Start the servers, run all benchmarks, write the report",
		Long: `Start nodes of this program, one and then three, and with --with-kafka a real
Apache Kafka beside each; run every benchmark on one node of both systems, appends also
on a slow disk, and appends and the mixed load on three nodes; stop them, and write a
report into --out. Kafka is fetched once, as its published Maven artifacts. A run takes
less than 15 minutes, with --quick less than 3. Ctrl-C writes a report of the results
so far.

Both systems share the machine with the clients, and wait for their disk in the same
way: an acknowledged append is synced on a majority. Rows with another durability, such
as Kafka's default, name it.

Sarama before version 1.48 sent several requests for a partition at once. --sarama145
is a build of this program with such a version, which is measured as well; without the
flag the benchmark builds it if the sources are in the working directory:

  go build -C bench/sarama145 -o ../../strandline-sarama145 strandline.dev/cmd/strandline-bench`,
		Example: "  strandline bench all --with-kafka --out results\n  strandline bench all --quick",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := cmp.Or(fleet.check(command), terminal.NotNegative(command, "repeats")); err != nil {
				return err
			}
			if command.Flags().Changed("ram") && !terminal.IsDirectory(ram) {
				return terminal.Misused(command, "--ram %s: no such directory", ram)
			}
			if common.keep == "" {
				common.keep = "strandline-bench-" + time.Now().Format("20060102-150405")
			}
			plan := suite.DefaultPlan()
			if quick {
				plan = suite.QuickPlan()
			}
			if repeats > 0 {
				plan.Repeats, plan.MatrixRepeats = repeats, repeats
			}
			plan.SlowDisk = time.Duration(slow)
			if terminal.IsDirectory(ram) {
				plan.RAM = ram
			} else {
				say(c, "the RAM disk is left out: there is no directory %s; --ram names another", ram)
			}
			ctx := command.Context()
			common.fleetDisk = os.TempDir()
			started, err := fleet.fleet(ctx, c)
			if err != nil {
				return err
			}
			common.fleetSoftware = fleet.software(ctx)
			run, err := startBench(c, ctx, common, 1)
			if err != nil {
				return err
			}
			var others suite.Others
			if older == "" && fleet.withKafka {
				older = buildOlderSarama(c, ctx, common.keep)
				defer os.Remove(older)
			}
			if older != "" {
				others = suite.Others{{Name: "Sarama 1.45.2", Program: older}}
			}
			if quick {
				run.span = quickSpan
			}
			begin := time.Now()
			err = run.limits()
			if err != nil && ctx.Err() == nil {
				err = errors.Join(err, run.writer.Row(report.Failed("limits", report.Subject{}, "", err)))
			}
			err = errors.Join(err, run.suite.All(ctx, started, plan, others))
			say(c, "%v", time.Since(begin).Round(time.Second))
			return run.finish(err)
		},
	}
	flags := command.Flags()
	common.registerOutput(flags)
	fleet.register(flags)
	flags.BoolVar(&quick, "quick", false, "make all measurements short: less than 3 minutes")
	flags.Var(&slow, "fsync-delay", "how much longer a sync takes in the runs with a slow disk")
	flags.StringVar(&ram, "ram", "/dev/shm", "`directory` on a file system in memory")
	flags.StringVar(&older, "sarama145", "", "a build of this program with Sarama 1.45.2")
	flags.IntVar(&repeats, "repeats", 0, "how often appends and the matrix are measured (default 3 and 2, with --quick 1)")
	common.span = limit.Span{Warmup: 250 * time.Millisecond, Duration: time.Second}
	return command
}

// quickSpan is for the limits of --quick.
var quickSpan = limit.Span{Warmup: 100 * time.Millisecond, Duration: 500 * time.Millisecond}

// buildOlderSarama builds this program with the older Sarama if it is run in
// its own sources, and returns where; nothing if it cannot.
func buildOlderSarama(c *terminal.Terminal, ctx context.Context, directory string) string {
	const module = "bench/sarama145"
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		say(c, "Sarama 1.45.2 is left out: --sarama145 is not given, and the sources are not here")
		return ""
	}
	program, err := filepath.Abs(filepath.Join(directory, "strandline-sarama145"))
	if err != nil {
		return ""
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", module, "-o", program, "strandline.dev/cmd/strandline-bench")
	if out, err := build.CombinedOutput(); err != nil {
		say(c, "Sarama 1.45.2 is left out: go build: %v: %s", err, strings.TrimSpace(string(out)))
		return ""
	}
	return program
}
