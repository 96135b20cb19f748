// Package bench is the benchmarks as commands. What they measure with is in bench.
package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/secure"
)

// New makes the command bench.
func New(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "bench",
		Short: "Measure a running server, other systems beside it, and this machine's own limits",
		Long: `Measure a running server, other systems beside it, and this machine's own limits.
Compare a figure with the limits of the machine in the same run: --with-limits
measures those as well and prints the ratios. Ctrl-C prints the results so far.

--target selects what is measured; repeat it for several targets. The default is
strandline:// at --server:

  strandline://HOST:PORT[,HOST:PORT]              by the Go client
  strandline://HOST:PORT[,HOST:PORT]?client=grpc  the same, its streams over gRPC
  strandline://HOST:PORT[,HOST:PORT]?client=python
                                                  by the Python client, in a checkout
                                                  after "make clients"; likewise
                                                  client=java, client=rust and
                                                  client=typescript
  kafka://HOST:PORT[,HOST:PORT]?client=franz      by franz-go: the default
  kafka://HOST:PORT[,HOST:PORT]?client=sarama     by Sarama
  kafka://HOST:PORT[,HOST:PORT]?client=fetch      reads only, without a library

&name=NAME and &disk=WORDS name the target and its disk in the tables, and &data=DIR is
the directory of its files, if they are on this machine. --data is the directory of
the server at --server.

With --json, every line is one object: an environment, a benchmark, a limit, a
ratio, or a measurement that was skipped or failed, with the reason. If a measurement
fails, the run continues with the next one. With --out, all results are stored in a
directory, for "bench report".`,
		Example: `  strandline bench appends --connections 1,128 --with-limits
  strandline bench limits --json`,
	},
		newBenchAll(c),
		newBenchAppends(c),
		newBenchLogs(c),
		newBenchIdle(c),
		newBenchFanOut(c),
		newBenchRead(c),
		newBenchPipeline(c),
		newBenchMatrix(c),
		newBenchRetention(c),
		newBenchRAMDisk(c),
		newBenchMixed(c),
		newBenchGather(c),
		newBenchLimits(c),
		newBenchReport(c),
		newBenchPeer(c),
	)
}

// benchFlags are common to all benchmarks.
type benchFlags struct {
	data string
	csv  string
	keep string     // --out
	span limit.Span // of each single limit

	// part: another run started this one, and prints the environment and makes
	// the report itself.
	part bool

	fleetDisk     string // where systems that the benchmark starts have their files; empty: it starts none
	fleetSoftware string // what else it starts, with versions
}

func (f *benchFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.data, "data", "", "data `directory` of the server at --server, if it is on this machine (default "+terminal.DefaultData+" if that exists)")
	f.registerOutput(flags)
}

// registerOutput is enough for a benchmark that starts its own servers.
func (f *benchFlags) registerOutput(flags *pflag.FlagSet) {
	flags.BoolVar(&f.part, "part", false, "a part of another run: no environment, no report")
	_ = flags.MarkHidden("part")
	flags.StringVar(&f.csv, "csv", "", "also write the rows to this CSV `file`")
	flags.StringVar(&f.keep, "out", "", "store all results in this `directory`, for bench report")
}

// targetFlags are common to all benchmarks that drive a log.
type targetFlags struct {
	targets  []string
	repeats  int
	replicas int
	stored   terminal.Durability
	tls      bool
}

func (f *targetFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&f.targets, "target", nil, "`address` to measure; repeat it to measure several (default strandline:// at --server)")
	flags.IntVar(&f.repeats, "repeats", 1, "how often each measurement is repeated; the rows are medians")
	flags.IntVar(&f.replicas, "replicas", 0, "replicas of logs that are created (default the server's)")
	flags.Var(&f.stored, "durability", "durability of logs that are created: disk or memory; memory is Kafka's default")
	flags.BoolVar(&f.tls, "tls", false, "also encrypt connections to kafka:// targets")
	terminal.CompleteWords(command, "durability", "disk", "memory")
}

// serverData is the data directory of the server at --server, or nothing if it
// is not known: that of a server on another machine must be given by a flag.
func (f *benchFlags) serverData(servers []string) string {
	if f.data != "" || f.fleetDisk != "" || !terminal.IsDirectory(terminal.DefaultData) {
		return f.data
	}
	for _, server := range servers {
		if host, _, err := net.SplitHostPort(server); err != nil || !transport.IsLoopback(host) {
			return ""
		}
	}
	return terminal.DefaultData
}

// subjects are what the flags name. data is the serverData, and keep how much
// logs that are created keep.
func (f *targetFlags) subjects(c *terminal.Terminal, data string, keep int64) ([]suite.Subject, error) {
	options := driver.Options{Insecure: c.Insecure}
	if c.Encrypted() {
		options.Strandline = append(options.Strandline, client.WithCertificates(c.Files.Authority, c.Files.Certificate, c.Files.Key))
	}
	if f.tls {
		config, err := tlsConfig(c.Files)
		if err != nil {
			return nil, err
		}
		options.TLS = config
	}
	addresses := []driver.Address{{Scheme: driver.Strandline, Nodes: c.Servers}}
	if len(f.targets) > 0 {
		addresses = nil
	}
	for _, text := range f.targets {
		a, err := driver.ParseAddress(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, a)
	}
	stored := workload.Synced
	if f.stored.String() == "memory" {
		stored = workload.Unsynced
	}
	var all []suite.Subject
	for _, a := range addresses {
		files := a.Data
		if files != "" && !terminal.IsDirectory(files) {
			return nil, fmt.Errorf("data=%s: no such directory", files)
		}
		if files == "" && isServer(c, a) {
			files = data
		}
		all = append(all, suite.Subject{
			Address: a, Options: options, Files: files,
			Log: workload.LogConfig{Durability: stored, Replicas: f.replicas, RetentionBytes: keep},
		})
	}
	return all, nil
}

// checkTLS refuses to measure without TLS if flags ask for TLS.
func (f *targetFlags) checkTLS(command *cobra.Command, subjects []suite.Subject) error {
	with := func(scheme string) bool {
		return slices.ContainsFunc(subjects, func(s suite.Subject) bool { return s.Scheme == scheme })
	}
	switch {
	case f.tls && !with(driver.Kafka):
		return terminal.Useless(command, "without a kafka:// --target", "tls")
	case !f.tls && !with(driver.Strandline):
		return terminal.Useless(command, "without --tls", "tls-ca", "tls-cert", "tls-key")
	}
	return nil
}

// isServer reports whether an address is of the nodes at --server.
func isServer(c *terminal.Terminal, a driver.Address) bool {
	other := func(node string) bool { return !slices.Contains(c.Servers, node) }
	return a.Scheme == driver.Strandline && !slices.ContainsFunc(a.Nodes, other)
}

// tlsConfig is for Kafka's clients. Brokers of others may know no later version.
func tlsConfig(files secure.Files) (*tls.Config, error) {
	c, err := secure.OpenClient(files)
	if err != nil {
		return nil, err
	}
	config := c.Client("")
	config.MinVersion = tls.VersionTLS12
	return config, nil
}

// spanFlags are the times of one measurement.
func spanFlags(flags *pflag.FlagSet, s *limit.Span, standard limit.Span) {
	*s = standard
	flags.Var((*terminal.Duration)(&s.Warmup), "warmup", "time before each measurement that is not counted")
	flags.Var((*terminal.Duration)(&s.Duration), "duration", "time that each measurement takes, after the warmup")
}

// checkSpan refuses to measure for no time at all.
func checkSpan(command *cobra.Command, s limit.Span) error {
	if s.Duration <= 0 {
		return terminal.Misused(command, "--duration must be above 0")
	}
	return nil
}

// limitsFlag belongs to a benchmark that can measure limits beside itself.
func (f *benchFlags) limitsFlag(flags *pflag.FlagSet) *bool {
	f.span = defaultSpan
	return flags.Bool("with-limits", false, "measure the machine's limits in the same run, and print the ratios")
}

// defaultSpan is enough for a limit: repeated results differ by some percent only.
var defaultSpan = limit.Span{Warmup: 500 * time.Millisecond, Duration: 2 * time.Second}

// bench is one run of a benchmark command.
type bench struct {
	terminal *terminal.Terminal
	benchFlags
	ctx       context.Context
	suite     *suite.Suite
	writer    report.Writer // shows and keeps rows
	directory *report.Directory
	scratch   *limit.Scratch // on the server's disk, or else here
	files     []io.Closer
}

// startBench opens the outputs and prints what the figures will depend on.
func startBench(c *terminal.Terminal, ctx context.Context, flags benchFlags, repeats int) (*bench, error) {
	b := &bench{terminal: c, benchFlags: flags, ctx: ctx, writer: report.Table(c.Out)}
	if c.JSON {
		b.writer = report.JSON(c.Out)
	}
	if flags.csv != "" {
		file, err := os.Create(flags.csv)
		if err != nil {
			return nil, err
		}
		b.files = append(b.files, file)
		b.writer = report.Both(b.writer, report.CSV(file))
	}
	shown := b.writer
	if flags.keep != "" {
		directory, err := report.OpenDirectory(flags.keep)
		if err != nil {
			return nil, err
		}
		b.directory = directory
		b.writer = report.Both(b.writer, directory)
	}
	b.suite = &suite.Suite{
		Output: suite.Output{
			Writer: shown, Directory: b.directory,
			Line: func(format string, args ...any) { say(c, format, args...) },
		},
		Repeats: repeats,
		Bar:     func(label string, total int64, u suite.Unit) suite.Bar { return newBar(c, label, total, u) },
	}
	if b.part {
		return b, nil
	}
	environment, err := b.environment()
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
	err = cmp.Or(err, b.writer.Close())
	for _, file := range b.files {
		err = cmp.Or(err, file.Close())
	}
	if b.directory != nil && !b.part {
		page, e := report.Summarize(b.keep)
		if err = cmp.Or(err, e); e == nil {
			say(b.terminal, "%s", page)
		}
	}
	return err
}

// environment looks at the machine and measures what a sync costs.
func (b *bench) environment() (report.Environment, error) {
	directory, remark := b.data, ""
	if b.fleetDisk != "" {
		directory = b.fleetDisk
	}
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
		Disk:      disk.String() + remark,
		Fdatasync: cost,
		Software:  "strandline " + terminal.ReadVersion().Exact() + b.fleetSoftware,
	}, err
}

// syncTime gives several thousand syncs on a fast disk and dozens on a slow one.
const syncTime = 500 * time.Millisecond

// note explains a result, to people only.
func note(c *terminal.Terminal, format string, args ...any) { say(c, "note: "+format, args...) }

// say reports how things go, to people only.
func say(c *terminal.Terminal, format string, args ...any) {
	if !c.JSON {
		fmt.Fprintf(c.Err, format+"\n", args...)
	}
}

// onSubjects opens the outputs, runs do for one subject after the other, and
// closes them. A benchmark that goes wrong on one subject is not begun on the
// next.
func onSubjects(c *terminal.Terminal, command *cobra.Command, flags benchFlags, targets targetFlags, keep int64, do func(*bench, suite.Subject) error) error {
	return onAllSubjects(c, command, flags, targets, keep, func(run *bench, subjects []suite.Subject) error {
		for _, s := range subjects {
			if err := explainTarget(s, do(run, s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// onAllSubjects is onSubjects for what needs all of them at once.
func onAllSubjects(c *terminal.Terminal, command *cobra.Command, flags benchFlags, targets targetFlags, keep int64, do func(*bench, []suite.Subject) error) error {
	data := flags.serverData(c.Servers)
	run, err := startBenchOn(c, command, &flags, targets)
	if err != nil {
		return err
	}
	subjects, err := targets.subjects(c, data, keep)
	if err == nil {
		err = do(run, subjects)
	}
	return run.finish(err)
}

// startBenchOn checks what the flags name before anything is begun.
func startBenchOn(c *terminal.Terminal, command *cobra.Command, flags *benchFlags, targets targetFlags) (*bench, error) {
	subjects, err := targets.subjects(c, flags.serverData(c.Servers), 0)
	if err != nil {
		return nil, terminal.Misused(command, "%w", err)
	}
	for _, s := range subjects {
		err := reachable(s)
		if errors.As(err, new(*client.Error)) {
			return nil, terminal.Hinted(terminal.Misused(command, "%w", err), terminal.BeyondHint)
		}
		if err != nil {
			return nil, terminal.Misused(command, "%w", err)
		}
		if flags.data == "" {
			flags.data = s.Files // whose disk the environment describes
		}
	}
	if err := cmp.Or(terminal.NotNegative(command, "replicas"), targets.checkTLS(command, subjects)); err != nil {
		return nil, err
	}
	if targets.repeats < 1 {
		return nil, terminal.Misused(command, "--repeats must be at least 1, not %d", targets.repeats)
	}
	return startBench(c, command.Context(), *flags, targets.repeats)
}

// reachable reports whether the options allow a connection with a subject. It does not connect.
func reachable(s suite.Subject) error {
	system, err := driver.Open(s.Address, s.Options)
	switch {
	case errors.Is(err, workload.ErrUnsupported):
		return nil // a row says it
	case err != nil:
		return err
	}
	return system.Close()
}

// explainTarget says what to do about the error of a target. Those of our own
// client explain themselves.
func explainTarget(s suite.Subject, err error) error {
	if errors.Is(err, workload.ErrForeign) {
		return terminal.Hinted(err, "choose another --log, or delete this log")
	}
	if s.Scheme != driver.Kafka || !driver.Unreachable(err) {
		return err
	}
	hint := "to use another one: --target kafka://HOST:PORT"
	var broken *net.OpError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		hint = "to trust whoever signed its certificate: --tls-ca FILE"
	case errors.As(err, &broken) && broken.Op == "dial": // no server listens
	case s.TLS == nil:
		hint += "\nif this one wants encryption: --tls"
	default:
		hint += "\nif this one does not encrypt: leave out --tls"
	}
	return terminal.Hinted(terminal.Unreachable(err), hint)
}
