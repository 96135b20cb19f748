package suite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/wire"
	"strandline.dev/bench/workload"
)

// Pipeline is B3 over several round trips and limits of requests in flight.
type Pipeline struct {
	workload.Pipeline
	RoundTrips []time.Duration
	InFlight   []int // 0: automatic, the library's own
	Repeats    int   // 0: the suite's
}

// progressEvery is how often a line shows the progress of a producer.
const progressEvery = 5 * time.Second

// Pipeline measures every combination, also after one that went wrong.
func (s *Suite) Pipeline(ctx context.Context, subject Subject, p Pipeline) error {
	var errs []error
	repeats := s.repeats()
	if p.Repeats > 0 {
		repeats = p.Repeats
	}
	for _, roundTrip := range p.RoundTrips {
		for _, inFlight := range p.InFlight {
			setting := fmt.Sprintf("round trip %v, in flight: %s", roundTrip, limitName(inFlight))
			var rows []report.Row
			var failed error
			var described report.Subject
			all := limit.NewHistogram()
			for i := range repeats {
				bar := func(d report.Subject) string { return label("pipeline", d, setting, i, repeats) }
				row, d, err := p.once(ctx, s, subject, roundTrip, inFlight, all, bar)
				described = d
				if row != nil {
					rows = append(rows, row)
				}
				if failed = err; err != nil {
					break
				}
			}
			if err := s.result(rows, "records_per_s"); err != nil {
				return err
			}
			name := described.Name() + ", in flight: " + limitName(inFlight)
			if err := s.latency("pipeline", fmt.Sprintf("round trip %v", roundTrip), name, all, true); err != nil {
				return err
			}
			errs = append(errs, s.settle(ctx, failed, "pipeline", described, setting))
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

func limitName(inFlight int) string {
	if inFlight == 0 {
		return "automatic"
	}
	return strconv.Itoa(inFlight)
}

// once runs one producer, on a new log, over a link of its own. Reading
// back, and all else, goes to the servers directly. The latencies of records are
// added to all.
func (p Pipeline) once(ctx context.Context, s *Suite, subject Subject, roundTrip time.Duration, inFlight int, all *hdrhistogram.Histogram, label func(report.Subject) string) (row report.Row, d report.Subject, err error) {
	d = subject.describe(nil)
	protocol := wire.Strandline
	if subject.Scheme == driver.Kafka {
		protocol = wire.Kafka
	}
	counter := wire.NewCounter(protocol)
	far := newLink(roundTrip, counter)
	throughLink := subject.Options
	throughLink.Dial = far.dial
	if subject.TLS != nil {
		// The link sees nothing in what is encrypted.
		far.counter, throughLink.Watch = nil, counter.Watch
	}
	defer func() { err = errors.Join(err, far.close()) }()
	subject.Log.Partitions = p.Sending.Partitions

	log := s.newLog("bench-pipeline")
	err = s.withLog(ctx, subject, log, func(near workload.Target, described report.Subject) error {
		d = described
		system, err := s.open(subject.Address, throughLink)
		if err != nil {
			return err
		}
		defer system.Close()
		load := p.Pipeline
		load.Sending.InFlight = inFlight
		load.ReadBack = near
		target, err := system.Open(ctx, log)
		if err != nil {
			return err
		}
		s.Line("%s", label(d))
		result, err := load.Run(ctx, target, progressEvery, func(now workload.Sofar) {
			s.Line("%s", progressLine(now, counter))
		})
		counts, broken := counter.Counts()
		if worthARow(ctx, errors.Join(err, broken), result.Count) {
			row = report.Pipeline(d, roundTrip, limitName(inFlight), result, counts, counter.Latency())
			row = append(row, report.Field{Name: "of_window", Value: ofWindow(load, roundTrip, result, counts)})
			row = append(row, report.Field{Name: "limit_kept", Value: kept(inFlight, p.Sending.Partitions, subject, counts)})
			all.Merge(result.Latency)
		}
		return errors.Join(err, broken)
	})
	return row, d, err
}

// ofWindow is the throughput on the wire over what the window allows: so many
// requests of so many bytes in each round trip. 0 if there is no such limit.
func ofWindow(p workload.Pipeline, roundTrip time.Duration, r workload.PipelineResult, c wire.Counts) float64 {
	if p.Sending.InFlight == 0 || p.Sending.RequestBytes == 0 || roundTrip == 0 || r.Acked == 0 {
		return 0
	}
	bytesPerRecord := float64(c.Up) / float64(r.Acked)
	window := float64(p.Sending.InFlight*p.Sending.RequestBytes) / roundTrip.Seconds()
	return r.PerSecond() * bytesPerRecord / window
}

// automaticMost is how many requests Strandline's automatic window allows.
const automaticMost = 64

// kept compares what was on the wire of one connection with what was allowed.
// Kafka's clients count by connection. Strandline's count by producer, and each
// partition has one.
func kept(inFlight, partitions int, subject Subject, seen wire.Counts) string {
	if inFlight == 0 && subject.Scheme == driver.Strandline {
		inFlight = automaticMost
	}
	if subject.Scheme == driver.Strandline {
		inFlight *= max(partitions, 1)
	}
	switch {
	case inFlight == 0:
		return "no limit known"
	case seen.Requests == 0:
		return "no request was seen"
	case seen.Most <= inFlight:
		return "yes"
	}
	return fmt.Sprintf("no: %d of %d", seen.Most, inFlight)
}

// progressLine returns a line in the format that the tools of the pipelining work
// printed: ingress counts values, egress what went out on the wire, latency is that
// of requests.
func progressLine(now workload.Sofar, counter *wire.Counter) string {
	counts, _ := counter.Counts() // an error is reported at the end
	latency := counter.Latency()
	seconds := max(now.Elapsed.Seconds(), 1e-9)
	const mib, ms = 1 << 20, float64(time.Millisecond)
	at := func(q float64) float64 { return float64(latency.ValueAtQuantile(q)) / ms }
	return fmt.Sprintf("%d records sent, %.1f records/sec (%.2f MiB/sec ingress, %.2f MiB/sec egress), "+
		"%.1f ms avg latency, %.1f ms stddev, %.1f ms 50th, %.1f ms 75th, %.1f ms 95th, %.1f ms 99th, %.1f ms 99.9th, "+
		"%d total req. in flight",
		now.Acked, float64(now.Acked)/seconds, float64(now.Bytes)/seconds/mib, float64(counts.Up)/seconds/mib,
		latency.Mean()/ms, latency.StdDev()/ms, at(50), at(75), at(95), at(99), at(99.9), counts.InFlight)
}
