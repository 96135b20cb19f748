package report

import (
	"strings"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/workload"
)

// Appends is the row of one connection count.
func Appends(r workload.AppendsResult) Row {
	return Row{
		{"benchmark", "appends"},
		{"connections", r.Connections},
		{"appends_per_s", r.PerSecond()},
		{"mib_per_s", r.MiBPerSecond()},
		{"p50_us", limit.Microseconds(r.Latency, 50)},
		{"p99_us", limit.Microseconds(r.Latency, 99)},
		{"p999_us", limit.Microseconds(r.Latency, 99.9)},
	}
}

// Read is the row of one long read. cache says where the bytes came from.
func Read(r workload.ReadResult, cache Cache) Row {
	return Row{
		{"benchmark", "read"},
		{"readers", r.Readers},
		{"cache", string(cache)},
		{"mib_per_s", r.MiBPerSecond()},
		{"records_per_s", r.RecordsPerSecond()},
	}
}

// Cache says whether the bytes that were read lay in the kernel's cache.
type Cache string

const (
	Cached   Cache = "cached"
	Uncached Cache = "uncached"
	// Unknown: the server's files are out of reach, so nothing was done.
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
	return Row{{"limit", name}, {"connections", connections}, {"per_s", r.PerSecond()}}
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
	Log       string // the log and its durability; empty if no log takes part
}

// Row is the environment as JSON tells it.
func (e Environment) Row() Row {
	return Row{
		{"environment", e.Machine},
		{"disk", e.Disk},
		{"fdatasync_2kib_p50_us", limit.Microseconds(e.Fdatasync.Synced, 50)},
		{"fdatasync_2kib_p99_us", limit.Microseconds(e.Fdatasync.Synced, 99)},
		{"log", e.Log},
	}
}

// String is the environment as the lines above a table tell it.
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
	line("log", e.Log)
	return b.String()
}
