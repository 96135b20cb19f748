package suite

import (
	"strings"
	"time"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/workload"
)

// Plan is how much All measures of everything.
type Plan struct {
	Appends     Appends
	WarmUp      time.Duration // of a Kafka, before anything is measured
	Repeats     int           // of appends
	OpenRate    float64
	Logs        Logs
	Idle        Idle
	FanOut      FanOut
	Reads       Reads
	ReadRepeats int        // from the disk
	ReadTurns   int        // from the cache, all clients in turn
	Pipelines   []Pipeline // one after the other
	Matrix      Matrix
	// MatrixRepeats is how often each configuration is measured.
	MatrixRepeats int
	Retention     Matrix // longer than the shortest of Retentions
	Retentions    []time.Duration
	RAMDisk       Matrix
	RAM           string // directory in memory; empty: no RAM disk is measured
	Mixed         workload.Mixed
	SlowDisk      time.Duration // how much longer a sync takes in the slow runs
	Three         bool          // three nodes as well
	// ThreeSyncedOnly leaves out what is not synced on three nodes.
	ThreeSyncedOnly bool
}

const day = 24 * time.Hour

// DefaultPlan takes less than 15 minutes with Kafka on two processors.
func DefaultPlan() Plan {
	producer := workload.Pipeline{
		Records: 1_000_000, ValueBytes: 1000, Check: true,
		Sending: workload.Sending{RequestBytes: 500_000, Linger: 100 * time.Millisecond},
		Span:    limit.Span{Warmup: 300 * time.Millisecond, Duration: time.Second},
	}
	far := producer
	far.Span = limit.Span{Warmup: 500 * time.Millisecond, Duration: 1500 * time.Millisecond}
	const longest = 140 * time.Millisecond
	return Plan{
		Appends: Appends{
			Appends:     workload.Appends{Workers: 128, ValueBytes: 2 << 10, Span: limit.Span{Warmup: 200 * time.Millisecond, Duration: 700 * time.Millisecond}},
			Connections: []int{1, 2, 8, 32, 128}, Log: "bench-appends",
		},
		WarmUp:   5 * time.Second,
		Repeats:  3,
		OpenRate: 2000,
		Logs: Logs{
			Appends: workload.Appends{Workers: 128, ValueBytes: 2 << 10, Span: limit.Span{Warmup: 500 * time.Millisecond, Duration: time.Second}},
			Numbers: []int{1, 10, 100, 1000},
		},
		Idle: Idle{Logs: 1000, Settle: 20 * time.Second, Span: limit.Span{Duration: 5 * time.Second}},
		FanOut: FanOut{
			FanOut: workload.FanOut{Workers: 16, Writers: 4, ValueBytes: 2 << 10, PerSecond: 200, Span: limit.Span{Warmup: 500 * time.Millisecond, Duration: 2 * time.Second}},
			Tails:  []int{0, 100},
		},
		Reads: Reads{
			Reads:   workload.Reads{Records: 384 << 10, ValueBytes: 2 << 10},
			Readers: []int{1, 4}, Log: "bench-read",
		},
		ReadRepeats: 1,
		ReadTurns:   5,
		Pipelines: []Pipeline{
			{Pipeline: producer, RoundTrips: []time.Duration{0, time.Millisecond, 70 * time.Millisecond}, InFlight: []int{1, 5, 0}},
			{Pipeline: far, RoundTrips: []time.Duration{longest}, InFlight: []int{1}},
			{Pipeline: far, RoundTrips: []time.Duration{longest}, InFlight: []int{5, 0}, Repeats: 3},
		},
		Matrix:        configured(workload.DefaultConfigurations, 100*time.Millisecond, 300*time.Millisecond),
		MatrixRepeats: 2,
		Retention:     configured(workload.RetentionConfigurations, 300*time.Millisecond, 4*time.Second),
		Retentions:    []time.Duration{7 * day, time.Second},
		RAMDisk:       configured(workload.RAMDiskConfigurations, 100*time.Millisecond, 400*time.Millisecond),
		Mixed: workload.Mixed{
			Writers: 4, Workers: 32, ValueBytes: 1 << 10, Tails: 2, Boots: 1, BootEvery: time.Second, TrimEvery: 2 * time.Second, Keep: 5000,
			Warmup: time.Second, Duration: 5 * time.Second,
		},
		SlowDisk: 2 * time.Millisecond,
		Three:    true,
	}
}

// QuickPlan takes less than 3 minutes: enough to see that everything works,
// too little to rely on a figure.
func QuickPlan() Plan {
	p := DefaultPlan()
	p.Repeats, p.MatrixRepeats, p.ReadTurns, p.WarmUp = 1, 1, 1, time.Second
	p.ThreeSyncedOnly = true
	p.Logs.Numbers = []int{1, 100}
	p.Idle = Idle{Logs: 100, Settle: 2 * time.Second, Span: limit.Span{Duration: time.Second}}
	p.FanOut.Tails, p.FanOut.Span = []int{0, 20}, limit.Span{Warmup: 200 * time.Millisecond, Duration: time.Second}
	p.Appends.Connections = []int{1, 128}
	p.Appends.Span = limit.Span{Warmup: 200 * time.Millisecond, Duration: 600 * time.Millisecond}
	p.Reads.Records = 64 << 10
	far := p.Pipelines[len(p.Pipelines)-1]
	far.Span, far.Repeats = limit.Span{Warmup: 500 * time.Millisecond, Duration: time.Second}, 1
	p.Pipelines = []Pipeline{far}
	p.Matrix = configured("mode=sync,async acks=-1\nmode=async compression=zstd bytes=500000 flush=100ms", 100*time.Millisecond, 400*time.Millisecond)
	p.Retention = configured("mode=async acks=-1", 100*time.Millisecond, 3200*time.Millisecond)
	p.Retentions = []time.Duration{time.Second}
	p.RAMDisk = configured("mode=async acks=-1", 100*time.Millisecond, 400*time.Millisecond)
	p.Mixed.Warmup, p.Mixed.Duration, p.Mixed.TrimEvery = 500*time.Millisecond, 1500*time.Millisecond, 500*time.Millisecond
	p.Mixed.Keep, p.Mixed.BootEvery = 1000, 500*time.Millisecond
	return p
}

func configured(list string, warmup, duration time.Duration) Matrix {
	configurations, err := workload.ParseConfigurations(strings.NewReader(list))
	if err != nil {
		panic(err) // our own list
	}
	return Matrix{
		Matrix:         workload.Matrix{Samples: workload.Samples(), Span: limit.Span{Warmup: warmup, Duration: duration}, Check: true},
		Configurations: configurations,
	}
}
