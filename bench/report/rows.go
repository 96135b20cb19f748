package report

import (
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/wire"
	"strandline.dev/bench/workload"
)

// Subject is what was measured, as every row says it.
type Subject struct {
	System     string // Strandline, Kafka 4.3.1
	Client     string // Go client, franz-go v1.22.2
	Durability string // condition of an acknowledgement
	Disk       string // as it is, or how much slower
}

// row begins the row of a benchmark.
func (s Subject) row(benchmark string) Row {
	return Row{
		{"benchmark", benchmark},
		{"system", s.System}, {"client", s.Client}, {"durability", s.Durability}, {"disk", s.Disk},
	}
}

// Name identifies the subject in charts.
func (s Subject) Name() string {
	return strings.Join([]string{s.System, s.Client, s.Durability, s.Disk}, ", ")
}

// Appends is the row of one connection count.
func Appends(s Subject, r workload.AppendsResult) Row {
	loop := "closed"
	if r.Asked > 0 {
		loop = "open, " + format(r.Asked) + "/s"
	}
	return append(s.row("appends"), Row{
		{"loop", loop},
		{"connections", r.Connections},
		{"appends_per_s", r.PerSecond()},
		{"mib_per_s", r.MiBPerSecond()},
		{"p50_us", limit.Microseconds(r.Latency, 50)},
		{"p99_us", limit.Microseconds(r.Latency, 99)},
		{"p999_us", limit.Microseconds(r.Latency, 99.9)},
		{"client_cpu_us", each(r.ClientTime, r.Count)},
		{"server_cpu_us", each(r.ServerTime, r.Count)},
	}...)
}

// Logs is the row of appends over a number of logs. created is how long it took until all of
// them could be used.
func Logs(s Subject, r workload.AppendsResult, created time.Duration) Row {
	return append(s.row("logs"), Row{
		{"logs", r.Logs},
		{"connections", r.Connections},
		{"appends_per_s", r.PerSecond()},
		{"mib_per_s", r.MiBPerSecond()},
		{"p50_us", limit.Microseconds(r.Latency, 50)},
		{"p99_us", limit.Microseconds(r.Latency, 99)},
		{"client_cpu_us", each(r.ClientTime, r.Count)},
		{"server_cpu_us", each(r.ServerTime, r.Count)},
		{"created_s", created.Seconds()},
	}...)
}

// IdleUse is what one node takes. A figure below 0 is not known.
type IdleUse struct {
	Processor    float64 // in percent of a core
	Goroutines   float64
	Memory, Disk float64 // bytes
}

// Idle is the row of idle logs: the resources that a node uses without and with them.
func Idle(s Subject, logs int, sessions bool, created time.Duration, without, with IdleUse) Row {
	known := func(v float64) any {
		if v < 0 {
			return ""
		}
		return v
	}
	ofLog := func(before, after float64) any {
		if before < 0 || after < 0 {
			return ""
		}
		return (after - before) / 1024 / float64(max(logs, 1))
	}
	return append(s.row("idle"), Row{
		{"logs", logs},
		{"sessions", sessions},
		{"cpu_percent", known(with.Processor)},
		{"cpu_percent_without", known(without.Processor)},
		{"goroutines", known(with.Goroutines)},
		{"goroutines_without", known(without.Goroutines)},
		{"memory_kib_per_log", ofLog(without.Memory, with.Memory)},
		{"disk_kib_per_log", ofLog(without.Disk, with.Disk)},
		{"created_s", created.Seconds()},
	}...)
}

// FanOut is the row of one number of tails.
func FanOut(s Subject, r workload.FanOutResult) Row {
	return append(s.row("fan-out"), Row{
		{"tails", r.Tails},
		{"asked_per_s", r.Asked},
		{"appends_per_s", r.PerSecond()},
		{"append_p50_us", limit.Microseconds(r.Append, 50)},
		{"append_p99_us", limit.Microseconds(r.Append, 99)},
		{"deliver_p50_us", limit.Microseconds(r.Deliver, 50)},
		{"deliver_p99_us", limit.Microseconds(r.Deliver, 99)},
		{"all_p50_us", limit.Microseconds(r.All, 50)},
		{"all_p99_us", limit.Microseconds(r.All, 99)},
		{"client_cpu_us", each(r.ClientTime, r.Count)},
		{"server_cpu_us", each(r.ServerTime, r.Count)},
	}...)
}

// Stages are the rows of where the time of appends went: each stage, in percent of the time
// that was measured; what the stages add up to; and that time. Stages that run beside the
// others, and are in the sum with none of theirs, come after it.
func Stages(s Subject, connections int, e *workload.Explained) []Row {
	whole := float64(max(e.Measured.Took, 1))
	count := float64(max(e.Measured.Count, 1))
	row := func(name string, t *workload.StageTotal) Row {
		of := float64(max(t.Count, 1))
		return append(s.row("stages"), Row{
			{"connections", connections},
			{"stage", name},
			{"start_percent", float64(t.Start) / of / (whole / count) * 100},
			{"share_percent", float64(t.Took) / of / (whole / count) * 100},
			{"mean_us", float64(t.Took) / of / 1e3},
			{"p50_us", limit.Microseconds(t.Times, 50)},
			{"p99_us", limit.Microseconds(t.Times, 99)},
			{"appends_percent", float64(t.Count) / count * 100},
		}...)
	}
	var follow, beside []Row
	for _, t := range e.Stages {
		if t.Beside {
			beside = append(beside, row(t.Stage, t))
		} else {
			follow = append(follow, row(t.Stage, t))
		}
	}
	return append(append(follow, row("sum", &e.Sum), row("measured", &e.Measured)), beside...)
}

// each is the processor time of one of many, in microseconds; empty if it is not known.
func each(taken time.Duration, count int64) any {
	if taken < 0 || count == 0 {
		return ""
	}
	return float64(taken.Nanoseconds()) / 1e3 / float64(count)
}

// Read is the row of one long read. cache says where the bytes came from.
func Read(s Subject, r workload.ReadResult, cache Cache) Row {
	return append(s.row("read"), Row{
		{"readers", r.Readers},
		{"cache", string(cache)},
		{"mib_per_s", r.MiBPerSecond()},
		{"records_per_s", r.RecordsPerSecond()},
		{"client_cpu_us_per_mib", each(r.ClientTime, r.Bytes>>20)},
		{"server_cpu_us_per_mib", each(r.ServerTime, r.Bytes>>20)},
	}...)
}

// Pipeline is the row of one producer over one link. wire is what passed the
// proxy, and requests the latency of requests there.
func Pipeline(s Subject, roundTrip time.Duration, inFlight string, r workload.PipelineResult, w wire.Counts, requests *hdrhistogram.Histogram) Row {
	return append(s.row("pipeline"), Row{
		{"round_trip_ms", float64(roundTrip) / float64(time.Millisecond)},
		{"in_flight", inFlight},
		{"records_per_s", r.PerSecond()},
		{"mib_per_s", r.MiBPerSecond()},
		{"most_on_wire", float64(w.Most)},
		{"request_p50_ms", limit.Microseconds(requests, 50) / 1000},
		{"record_p50_ms", limit.Microseconds(r.Latency, 50) / 1000},
		{"record_p99_ms", limit.Microseconds(r.Latency, 99) / 1000},
		{"checked", checked(r.Checked)},
	}...)
}

func checked(yes bool) string {
	if yes {
		return "read back"
	}
	return "no"
}

// Configured is the row of one configuration of the matrix, of the benchmark
// called so: matrix, retention, ramdisk.
func Configured(benchmark string, s Subject, setting string, r workload.PipelineResult) Row {
	return append(s.row(benchmark), Row{
		{"setting", setting},
		{"mb_per_s", r.MiBPerSecond() * (1 << 20) / 1e6},
		{"records_per_s", r.PerSecond()},
		{"p50_us", limit.Microseconds(r.Latency, 50)},
		{"p99_us", limit.Microseconds(r.Latency, 99)},
		{"checked", checked(r.Checked)},
	}...)
}

// Trimmed adds to a row how much of [0, end) has been trimmed, in percent.
func Trimmed(r Row, start, end int64) Row {
	return append(r, Field{"trimmed_percent", float64(start) / float64(max(end, 1)) * 100})
}

// Mixed is the row of everything at once.
func Mixed(s Subject, r workload.MixedResult) Row {
	return append(s.row("mixed"), Row{
		{"appends_per_s", r.PerSecond()},
		{"append_p50_us", limit.Microseconds(r.Append, 50)},
		{"append_p99_us", limit.Microseconds(r.Append, 99)},
		{"deliver_p50_us", limit.Microseconds(r.Deliver, 50)},
		{"deliver_p99_us", limit.Microseconds(r.Deliver, 99)},
		{"boot_mib_per_s", r.BootReads.MiBPerSecond()},
		{"boot_reads", float64(r.Boots)},
		{"trims", float64(r.Trims)},
		{"tails_checked", r.Tails},
	}...)
}

// Skipped is a measurement that was left out.
func Skipped(benchmark string, s Subject, setting string, why error) Row {
	return s.without(skipped, benchmark, setting, why)
}

// Failed is a measurement that went wrong.
func Failed(benchmark string, s Subject, setting string, why error) Row {
	return s.without(failed, benchmark, setting, why)
}

// The first columns of rows that have no figures.
const skipped, failed = "skipped", "failed"

func (s Subject) without(kind, benchmark, setting string, why error) Row {
	r := s.row(benchmark)
	r[0].Name = kind
	return append(r, Field{"setting", setting}, Field{"why", strings.ReplaceAll(why.Error(), "\n", "; ")})
}

// Cache says whether the bytes that were read lay in the kernel's cache.
type Cache string

const (
	Cached   Cache = "cached"
	Uncached Cache = "uncached"
	// Unknown: the server's files cannot be reached from here, so nothing was done.
	Unknown Cache = "unknown"
)

// Fdatasync is the cost of a write of that many bytes with its sync.
func Fdatasync(c limit.SyncCost) Row {
	return Row{
		{"limit", "fdatasync"},
		{"bytes", c.Bytes},
		{"p50_us", limit.Microseconds(c.Synced, 50)},
		{"p99_us", limit.Microseconds(c.Synced, 99)},
	}
}

// Cat is reading files without a log in between.
func Cat(t limit.Throughput, cache Cache) Row {
	return Row{{"limit", "cat"}, {"cache", string(cache)}, {"mib_per_s", t.MiBPerSecond()}}
}

// Echo is a limit in round trips per second: tcp_echo, grpc_echo.
func Echo(name string, connections int, r limit.Rate) Row {
	return Row{
		{"limit", name}, {"connections", connections}, {"per_s", r.PerSecond()},
		{"client_cpu_us", each(r.ClientTime, r.Count)}, {"server_cpu_us", each(r.ServerTime, r.Count)},
	}
}

// Stream is a limit in throughput: tcp_stream, grpc_stream.
func Stream(name string, connections int, t limit.Throughput) Row {
	return Row{{"limit", name}, {"connections", connections}, {"mib_per_s", t.MiBPerSecond()}}
}

// Ratio is a benchmark's figure over the limit of the same run.
func Ratio(of, over string, connections int, value float64) Row {
	return Row{{"ratio", of + "/" + over}, {"connections", connections}, {"value", value}}
}

// Environment is what every figure of a run depends on.
type Environment struct {
	Machine   string // processors, kernel, Go
	Disk      string // the directory that was measured, its file system
	Fdatasync limit.SyncCost
	Software  string // measured and measuring programs, with versions
}

// Row is the environment as JSON.
func (e Environment) Row() Row {
	return Row{
		{"environment", e.Machine},
		{"disk", e.Disk},
		{"fdatasync_2kib_p50_us", limit.Microseconds(e.Fdatasync.Synced, 50)},
		{"fdatasync_2kib_p99_us", limit.Microseconds(e.Fdatasync.Synced, 99)},
		{"software", e.Software},
	}
}

// String is the environment as the lines above a table.
func (e Environment) String() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			b.WriteString(name + strings.Repeat(" ", 10-len(name)) + value + "\n")
		}
	}
	line("machine", e.Machine)
	line("disk", e.Disk+", write + fdatasync of 2 KiB p50 "+
		format(limit.Microseconds(e.Fdatasync.Synced, 50))+" us, p99 "+
		format(limit.Microseconds(e.Fdatasync.Synced, 99))+" us")
	line("software", e.Software)
	return b.String()
}
