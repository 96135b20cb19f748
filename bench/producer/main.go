// Command producer measures Kafka's own ProducerPerformance against
// Strandline's Kafka port and a real Kafka with flush.messages=1, one node of
// each on the same disk, in turn:
//
//	go build -o strandline ./cmd/strandline
//	go run ./bench/producer --program ./strandline
//
// Both get the same topic of one partition, anew in every round, and the same
// producer: Java's defaults, acks=all. It needs java and mvn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/kafka"
	"strandline.dev/bench/report"
	"strandline.dev/bench/suite"
	"strandline.dev/bench/workload"
)

func main() {
	var c comparison
	flag.StringVar(&c.program, "program", "strandline", "Strandline's `program`")
	flag.IntVar(&c.rounds, "rounds", 5, "rounds; each measures both, and every other one Kafka first")
	flag.IntVar(&c.records, "records", 200_000, "records of a run that count")
	flag.IntVar(&c.warmup, "warmup", 50_000, "records of a run before those")
	flag.IntVar(&c.bytes, "bytes", 1024, "bytes of a record")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

// comparison is what to measure.
type comparison struct {
	program                        string
	rounds, records, warmup, bytes int
	installation                   kafka.Installation
}

// side is one of the two that are compared.
type side struct {
	address driver.Address
	system  workload.System
	runs    []report.Row
}

func (c *comparison) run(ctx context.Context) (err error) {
	program, err := exec.LookPath(c.program)
	if err != nil {
		return fmt.Errorf("build Strandline first, and give its path with --program: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find a directory for Kafka: %w", err)
	}
	version := kafka.DefaultVersion
	c.installation, err = kafka.Fetch(ctx, filepath.Join(cache, "strandline", "kafka-"+version), version)
	if err != nil {
		return err
	}
	fleet := suite.Fleet{
		Program: program, Directory: os.TempDir(), Host: "127.0.0.1",
		WithKafka: true, Kafka: c.installation, KafkaPort: true,
	}
	running, err := fleet.Start(ctx, suite.Place{Nodes: 1})
	if err != nil {
		return err
	}
	defer running.Stop()
	running.Kafka.Name = "Kafka " + version
	sides := []*side{{address: running.KafkaPort}, {address: running.Kafka}}
	for _, s := range sides {
		s.address.Client = driver.ClientFranz // makes the topics
		if s.system, err = driver.Open(s.address, driver.Options{}); err != nil {
			return err
		}
		defer s.system.Close()
	}
	table := report.Table(os.Stdout)
	defer func() { err = errors.Join(err, table.Close()) }()
	for round := range c.rounds {
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			row, err := c.measure(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.address.Name, err)
			}
			s.runs = append(s.runs, row)
			if err := table.Row(report.Repeat(row, round+1)); err != nil {
				return err
			}
		}
	}
	return c.summarize(table, sides)
}

// topic is made and deleted by every run.
const topic = "producer-performance"

// measure runs the producer once.
func (c *comparison) measure(ctx context.Context, s *side) (row report.Row, err error) {
	if err := s.system.Create(ctx, topic, workload.LogConfig{Durability: workload.Synced, Replicas: 1}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.system.Delete(context.WithoutCancel(ctx), topic)) }()
	target, err := s.system.Open(ctx, topic)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	command := c.installation.Tool(ctx, "org.apache.kafka.tools.ProducerPerformance",
		"--bootstrap-server", s.address.Nodes[0], "--topic", topic, "--command-property", "acks=all",
		"--num-records", strconv.Itoa(c.warmup+c.records), "--warmup-records", strconv.Itoa(c.warmup),
		"--record-size", strconv.Itoa(c.bytes), "--throughput", "-1")
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("run ProducerPerformance: %w", err)
	}
	figures, err := readFigures(out)
	if err != nil {
		return nil, err
	}
	_, end, err := target.Bounds(ctx, 0)
	if err != nil {
		return nil, err
	}
	if end != int64(c.warmup+c.records) {
		return nil, fmt.Errorf("%d records were sent, but the log has %d", c.warmup+c.records, end)
	}
	return append(report.Row{
		{Name: "benchmark", Value: "producer"}, {Name: "system", Value: s.address.Name}, {Name: "durability", Value: target.Durability()},
	}, figures...), nil
}

// summary is what ProducerPerformance says at the end of the records that count.
var summary = regexp.MustCompile(`(?m)^\d+ steady state records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\).* (\d+) ms 50th, .* (\d+) ms 99th`)

func readFigures(output []byte) ([]report.Field, error) {
	found := summary.FindSubmatch(output)
	if found == nil {
		return nil, fmt.Errorf("ProducerPerformance printed no figures of the steady state:\n%s", output)
	}
	fields := []report.Field{{Name: "records_per_s"}, {Name: "mib_per_s"}, {Name: "p50_ms"}, {Name: "p99_ms"}}
	for i := range fields {
		value, err := strconv.ParseFloat(string(found[i+1]), 64)
		if err != nil {
			return nil, fmt.Errorf("read a figure of ProducerPerformance: %w", err)
		}
		fields[i].Value = value
	}
	return fields, nil
}

// summarize prints the medians, and how many times Kafka Strandline is: of the
// medians, and in the rounds.
func (c *comparison) summarize(table report.Writer, sides []*side) error {
	const figure = "records_per_s"
	var medians []float64
	for _, s := range sides {
		row := report.Median(s.runs, figure)
		if err := table.Row(row); err != nil {
			return err
		}
		n, _ := row.Number(figure)
		medians = append(medians, n)
	}
	var ratios []float64
	for round := range c.rounds {
		ours, _ := sides[0].runs[round].Number(figure)
		theirs, _ := sides[1].runs[round].Number(figure)
		ratios = append(ratios, ours/theirs)
	}
	return table.Row(report.Row{
		{Name: "ratio", Value: "producer"}, {Name: "of_medians", Value: medians[0] / medians[1]},
		{Name: "lowest_round", Value: slices.Min(ratios)}, {Name: "highest_round", Value: slices.Max(ratios)},
	})
}
