package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
	"strandline.dev/internal/cli/terminal"
)

func newBenchPipeline(c *terminal.Terminal) *cobra.Command {
	var (
		common      benchFlags
		targets     targetFlags
		records     int64
		value       = terminal.Size(1000)
		rate        float64
		roundTrips  = durations{0, time.Millisecond, 70 * time.Millisecond, 140 * time.Millisecond}
		inFlight    = limits{1, 5, 0}
		flushBytes  = terminal.Size(500_000)
		flush       = terminal.Duration(100 * time.Millisecond)
		acks        string
		compression string
		once        string
		partitioner string
		load        suite.Pipeline
		span        limit.Span
	)
	command := &cobra.Command{
		Use:   "pipeline",
		Short: "Throughput of one producer over a long round trip, against its requests in flight",
		Long: `One producer sends as fast as the client library allows, or at a rate, over a proxy
that makes the round trip longer. --in-flight limits its requests in flight; "auto" is
the client library's default. The proxy counts the unanswered requests on the wire, and
the row gives the highest count. Then the benchmark reads the log and compares it with
the records sent by a running hash.

A line every 5 s reports progress: ingress counts values, egress the bytes on the wire,
latency is that of requests, as the proxy sees them. With --tls a proxy cannot see
requests: this program counts requests and bytes just before it encrypts them. Every
measurement creates a log and deletes it.`,
		Example: `  strandline bench pipeline --round-trip 140ms --in-flight 1,5,auto
  strandline bench pipeline --target "kafka://127.0.0.1:9092?client=sarama" --in-flight 5`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			load.Pipeline = workload.Pipeline{
				Records: records, ValueBytes: int(value), PerSecond: rate, Span: span, Check: true,
				Partitioner: workload.Partitioner(partitioner), Partition: load.Partition,
				Sending: workload.Sending{
					RequestBytes: int(flushBytes), Linger: time.Duration(flush),
					Compression: compression, Partitions: load.Sending.Partitions,
				},
			}
			sending := &load.Pipeline.Sending
			err := checkSpan(command, span)
			if err != nil {
				return err
			}
			if sending.Acks, err = workload.ParseAcks(acks); err != nil {
				return terminal.Misused(command, "--acks: %w", err)
			}
			if sending.Once, err = parseOnce(once); err != nil {
				return terminal.Misused(command, "--once: %w", err)
			}
			if !slices.Contains(workload.Partitioners, load.Partitioner) {
				return terminal.Misused(command, "--partitioner must be one of %v, not %s", workload.Partitioners, partitioner)
			}
			if !slices.Contains(workload.Compressions, compression) {
				return terminal.Misused(command, "--compression must be one of %v, not %s", workload.Compressions, compression)
			}
			if err := terminal.NotNegative(command, "rate", "partitions"); err != nil {
				return err
			}
			if load.Partitioner != workload.PartitionManual {
				if err := terminal.Useless(command, "with --partitioner "+partitioner, "partition"); err != nil {
					return err
				}
			}
			if err := load.Validate(); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			load.RoundTrips, load.InFlight = roundTrips, inFlight
			return onSubjects(c, command, common, targets, 0, func(b *bench, s suite.Subject) error {
				return b.suite.Pipeline(b.ctx, s, load)
			})
		},
	}
	flags := command.Flags()
	common.register(flags)
	targets.register(command)
	flags.Int64Var(&records, "records", 1_000_000, "the most records to send")
	flags.Var(&value, "value", "size of a value, at least 16B")
	flags.Float64Var(&rate, "rate", 0, "target of records per second (default as fast as possible)")
	flags.Var(&roundTrips, "round-trip", "round trips to measure; 0 also goes through the proxy")
	flags.Var(&inFlight, "in-flight", "requests in flight to measure: numbers, or auto")
	flags.Var(&flushBytes, "flush-bytes", "size of a request")
	flags.Var(&flush, "flush-frequency", "how long a record waits at most until its request is full")
	flags.StringVar(&acks, "acks", "-1", "-1 (all), 0 or 1; Strandline always waits for a majority")
	flags.StringVar(&compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&once, "once", "default", "append at most once: yes, no, or default, the library's default")
	flags.IntVar(&load.Sending.Partitions, "partitions", 1, "partitions of the topic; for Strandline, logs")
	flags.StringVar(&partitioner, "partitioner", "manual", "manual, roundrobin, random or hash")
	flags.IntVar(&load.Partition, "partition", 0, "partition that the manual partitioner sends to")
	spanFlags(flags, &span, limit.Span{Warmup: 2 * time.Second, Duration: 10 * time.Second})
	terminal.CompleteWords(command, "compression", workload.Compressions...)
	terminal.CompleteWords(command, "once", "yes", "no", "default")
	terminal.CompleteWords(command, "partitioner", "manual", "roundrobin", "random", "hash")
	return command
}

func parseOnce(text string) (workload.Once, error) {
	switch text {
	case "yes":
		return workload.OnceYes, nil
	case "no":
		return workload.OnceNo, nil
	case "default":
		return workload.OnceDefault, nil
	}
	return 0, fmt.Errorf("%q is not yes, no or default", text)
}

// durations is a flag of several time spans.
type durations []time.Duration

func (d *durations) Set(text string) error {
	*d = nil
	for part := range strings.SplitSeq(text, ",") {
		var one terminal.Duration
		if err := one.Set(part); err != nil {
			return err
		}
		*d = append(*d, time.Duration(one))
	}
	return nil
}

func (d durations) String() string {
	var all []string
	for _, one := range d {
		all = append(all, terminal.Duration(one).String())
	}
	return strings.Join(all, ",")
}

func (*durations) Type() string { return "durations" }

// limits is a flag of several numbers of requests in flight; 0 is auto.
type limits []int

func (l *limits) Set(text string) error {
	*l = nil
	for part := range strings.SplitSeq(text, ",") {
		n := 0
		if part != "auto" {
			var err error
			if n, err = strconv.Atoi(part); err != nil || n < 1 {
				return errors.New("each value is auto or a number of requests, at least 1")
			}
		}
		*l = append(*l, n)
	}
	return nil
}

func (l limits) String() string {
	var all []string
	for _, n := range l {
		if n == 0 {
			all = append(all, "auto")
		} else {
			all = append(all, strconv.Itoa(n))
		}
	}
	return strings.Join(all, ",")
}

func (*limits) Type() string { return "limits" }
