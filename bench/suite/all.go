package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// Plan is how much All measures of everything.
type Plan struct {
	Appends    Appends
	WarmUp     time.Duration // of each system, before anything is measured
	Repeats    int           // of appends and of the matrix
	OpenRate   float64
	Reads      Reads
	Pipeline   Pipeline
	Matrix     Matrix
	Two        Matrix // for retention and the RAM disk
	Retentions []time.Duration
	Mixed      workload.Mixed
	SlowDisk   time.Duration // how much longer a sync takes in the slow runs
	RAM        string        // directory in memory; empty: none
	Three      bool          // three nodes as well
	// ThreeSyncedOnly leaves out what is not synced on three nodes.
	ThreeSyncedOnly bool
}

// DefaultPlan takes less than 15 minutes with Kafka on two processors.
func DefaultPlan() Plan {
	const day = 24 * time.Hour
	return Plan{
		Appends: Appends{
			Appends:     workload.Appends{Workers: 128, ValueBytes: 2 << 10, Span: limit.Span{Warmup: 250 * time.Millisecond, Duration: 800 * time.Millisecond}},
			Connections: []int{1, 2, 8, 32, 128}, Log: "bench-appends",
		},
		WarmUp:   6 * time.Second,
		Repeats:  3,
		OpenRate: 2000,
		Reads: Reads{
			Reads:   workload.Reads{Records: 512 << 10, ValueBytes: 2 << 10},
			Readers: []int{1, 4}, Log: "bench-read", Cat: true,
		},
		Pipeline: Pipeline{
			Pipeline: workload.Pipeline{
				Records: 1_000_000, ValueBytes: 1000, Check: true,
				Sending: workload.Sending{RequestBytes: 500_000, Linger: 100 * time.Millisecond},
				Span:    limit.Span{Warmup: 500 * time.Millisecond, Duration: 1500 * time.Millisecond},
			},
			RoundTrips: []time.Duration{0, time.Millisecond, 70 * time.Millisecond, 140 * time.Millisecond},
			InFlight:   []int{1, 5, 0},
		},
		Matrix:     configured(workload.DefaultConfigurations, 100*time.Millisecond, 300*time.Millisecond),
		Two:        configured("mode=sync,async acks=-1", 200*time.Millisecond, time.Second),
		Retentions: []time.Duration{7 * day, time.Minute, 5 * time.Second},
		Mixed: workload.Mixed{
			Writers: 4, Workers: 32, ValueBytes: 1 << 10, Tails: 2, Boots: 1, BootEvery: time.Second, TrimEvery: 2 * time.Second, Keep: 5000,
			Warmup: time.Second, Duration: 6 * time.Second,
		},
		SlowDisk: 2 * time.Millisecond,
		Three:    true,
	}
}

// QuickPlan takes less than 3 minutes: enough to see that everything works,
// too little to rely on a figure.
func QuickPlan() Plan {
	p := DefaultPlan()
	p.Repeats, p.WarmUp = 1, time.Second
	p.ThreeSyncedOnly = true
	p.Appends.Connections = []int{1, 128}
	p.Appends.Span = limit.Span{Warmup: 200 * time.Millisecond, Duration: 600 * time.Millisecond}
	p.Reads.Records = 64 << 10
	p.Pipeline.RoundTrips = []time.Duration{140 * time.Millisecond}
	p.Pipeline.InFlight = []int{5, 0}
	p.Pipeline.Span = limit.Span{Warmup: 500 * time.Millisecond, Duration: time.Second}
	p.Matrix = configured("mode=sync,async acks=-1,0\nmode=async compression=zstd bytes=500000 flush=100ms", 100*time.Millisecond, 400*time.Millisecond)
	p.Two = configured("mode=sync,async acks=-1", 100*time.Millisecond, 400*time.Millisecond)
	p.Retentions = []time.Duration{p.Retentions[0], 5 * time.Second}
	p.Mixed.Warmup, p.Mixed.Duration, p.Mixed.TrimEvery = 500*time.Millisecond, 2*time.Second, 500*time.Millisecond
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

// All starts systems, measures everything on them, and stops them. A
// measurement that goes wrong is told and the next one begun; the error tells
// of all of them. When the context ends, so does All.
func (s *Suite) All(ctx context.Context, f Fleet, p Plan, others Others) error {
	run := &allRun{suite: s, fleet: f, plan: p, others: others, begin: time.Now()}
	run.place(ctx, Place{Nodes: 1}, run.one)
	run.place(ctx, Place{Nodes: 1, SyncDelay: p.SlowDisk}, run.appends)
	if p.Three {
		run.place(ctx, Place{Nodes: 3}, run.three)
	}
	if p.RAM != "" {
		run.try(ctx, "ramdisk", func() error { return s.RAMDisks(ctx, f, p.Two, f.Directory, p.RAM) })
	}
	return errors.Join(append(run.failed, ctx.Err())...)
}

// allRun is one run of All.
type allRun struct {
	suite  *Suite
	fleet  Fleet
	plan   Plan
	others Others
	begin  time.Time
	failed []error
}

// place starts the systems for as long as do needs them.
func (r *allRun) place(ctx context.Context, p Place, do func(context.Context, *Running, Place)) {
	what := fmt.Sprintf("nodes of each system: %d, disk %s", p.Nodes, p.disk())
	r.try(ctx, what, func() error {
		r.suite.Line("%v: starting, %s", time.Since(r.begin).Round(time.Second), what)
		running, err := r.fleet.Start(ctx, p)
		if err != nil {
			return err
		}
		defer running.Stop()
		if err := r.warmUp(ctx, running, p); err != nil {
			return err
		}
		r.suite.Line("everything runs after %v", time.Since(r.begin).Round(time.Second))
		do(ctx, running, p)
		return nil
	})
}

// warmUp has every system append for a while, unmeasured: a virtual machine for
// Java compiles what it runs only then.
func (r *allRun) warmUp(ctx context.Context, running *Running, p Place) error {
	s := *r.suite
	s.Writer, s.Directory, s.Repeats = report.Nowhere{}, nil, 1
	load := r.plan.Appends
	load.Span = limit.Span{Duration: r.plan.WarmUp / 2}
	load.Connections = []int{1, 32}
	for _, subject := range r.subjects(running, p, workload.Synced, driver.ClientFranz) {
		subject.Log.RetentionBytes = keepBytes
		if _, err := s.Appends(ctx, subject, load); err != nil {
			return err
		}
	}
	return nil
}

// try keeps an error for the end, and tells it in a row if nobody has yet,
// unless nothing is to be done any more.
func (r *allRun) try(ctx context.Context, what string, do func() error) {
	if ctx.Err() != nil {
		return
	}
	begin := time.Now()
	err := do()
	r.suite.Line("%s: %v", what, time.Since(begin).Round(100*time.Millisecond))
	if err == nil {
		return
	}
	err = r.suite.settle(ctx, err, what, report.Subject{}, "")
	r.failed = append(r.failed, fmt.Errorf("%s: %w", what, err))
}

// subjects are the systems with the clients that are worth a row.
func (r *allRun) subjects(running *Running, p Place, stored workload.Durability, clients ...string) []Subject {
	config := workload.LogConfig{Durability: stored, Replicas: p.Nodes}
	all := []Subject{{Address: running.Strandline, Files: running.StrandlineFiles, Log: config}}
	// One library is enough for our own door: time is short.
	for _, client := range clients[:min(len(clients), 1)] {
		if len(running.Door.Nodes) > 0 && stored == workload.Synced {
			a := running.Door
			a.Client = client
			all = append(all, Subject{Address: a, Files: running.StrandlineFiles, Log: config})
		}
	}
	for _, client := range clients {
		if len(running.Kafka.Nodes) > 0 {
			a := running.Kafka
			a.Client = client
			all = append(all, Subject{Address: a, Version: running.KafkaVersion, Files: running.KafkaFiles, Log: config})
		}
	}
	return all
}

// keepBytes is what logs of appends keep, so that a run does not fill a disk.
const keepBytes = 256 << 20

// appends is B1 on all systems.
func (r *allRun) appends(ctx context.Context, running *Running, p Place) {
	defer r.repeated()()
	for _, stored := range []workload.Durability{workload.Synced, workload.Unsynced} {
		if stored == workload.Unsynced && (p.SyncDelay > 0 || p.Nodes > 1 && r.plan.ThreeSyncedOnly) {
			continue // it would not notice the delay
		}
		for _, subject := range r.subjects(running, p, stored, driver.ClientFranz, driver.ClientSarama) {
			subject.Log.RetentionBytes = keepBytes
			r.try(ctx, "appends", func() error {
				_, err := r.suite.Appends(ctx, subject, r.plan.Appends)
				return err
			})
		}
	}
}

// repeated has everything repeated until the function that it returns is
// called.
func (r *allRun) repeated() func() {
	r.suite.Repeats = r.plan.Repeats
	return func() { r.suite.Repeats = 1 }
}

// three is what is measured of three nodes.
func (r *allRun) three(ctx context.Context, running *Running, p Place) {
	r.appends(ctx, running, p)
	r.mixed(ctx, running, p)
}

// one is what is measured of one node: everything.
func (r *allRun) one(ctx context.Context, running *Running, p Place) {
	r.appends(ctx, running, p)
	r.openLoop(ctx, running, p)
	r.reads(ctx, running, p)
	r.pipeline(ctx, running, p)
	r.matrix(ctx, running, p)
	for _, subject := range r.subjects(running, p, workload.Synced, driver.ClientSarama) {
		two := r.plan.Two
		two.Check = false // a short retention trims what was sent
		r.try(ctx, "retention", func() error { return r.suite.Retention(ctx, subject, two, r.plan.Retentions) })
	}
	r.mixed(ctx, running, p)
}

func (r *allRun) openLoop(ctx context.Context, running *Running, p Place) {
	open := r.plan.Appends
	open.PerSecond, open.Connections = r.plan.OpenRate, []int{8}
	for _, subject := range r.subjects(running, p, workload.Synced, driver.ClientFranz) {
		r.try(ctx, "appends, open loop", func() error {
			_, err := r.suite.Appends(ctx, subject, open)
			return err
		})
	}
}

// reads is B2. A log is filled once for each system and then read by each
// client.
func (r *allRun) reads(ctx context.Context, running *Running, p Place) {
	clients := map[string][]Subject{}
	var order []string
	for _, s := range r.subjects(running, p, workload.Unsynced, driver.ClientFranz, driver.ClientSarama, driver.ClientFetch) {
		if s.Scheme == driver.Strandline {
			s.Log.Durability = workload.Synced // what lies in memory alone is no read from a disk
		}
		if clients[s.Label()] == nil {
			order = append(order, s.Label())
		}
		clients[s.Label()] = append(clients[s.Label()], s)
	}
	for _, system := range order {
		all := clients[system]
		r.try(ctx, "read", func() error {
			_, err := r.suite.Reads(ctx, all[0], r.plan.Reads, all[1:]...)
			return err
		})
	}
}

func (r *allRun) pipeline(ctx context.Context, running *Running, p Place) {
	subjects := r.subjects(running, p, workload.Synced, driver.ClientFranz, driver.ClientSarama)
	for _, subject := range subjects {
		r.try(ctx, "pipeline", func() error { return r.suite.Pipeline(ctx, subject, r.plan.Pipeline) })
	}
	if len(running.Kafka.Nodes) > 0 {
		kafka := subjects[len(subjects)-1]
		for _, other := range r.others {
			r.try(ctx, "pipeline, "+other.Name, func() error { return r.suite.otherPipeline(ctx, other, kafka, r.plan.Pipeline) })
		}
	}
}

func (r *allRun) matrix(ctx context.Context, running *Running, p Place) {
	defer r.repeated()()
	for _, subject := range r.subjects(running, p, workload.Synced, driver.ClientSarama) {
		r.try(ctx, "matrix", func() error { return r.suite.Matrix(ctx, subject, r.plan.Matrix) })
	}
}

func (r *allRun) mixed(ctx context.Context, running *Running, p Place) {
	for _, subject := range r.subjects(running, p, workload.Synced, driver.ClientFranz) {
		r.try(ctx, "mixed", func() error { return r.suite.Mixed(ctx, subject, r.plan.Mixed) })
	}
}

// RAMDisks is B6: systems on a disk, the same in a directory in memory, and
// logs of Strandline that are in memory alone.
func (s *Suite) RAMDisks(ctx context.Context, f Fleet, m Matrix, disk, ram string) error {
	for _, p := range []Place{{Nodes: 1, Directory: disk, Disk: "as it is"}, {Nodes: 1, Directory: ram, Disk: "in memory (tmpfs)"}} {
		err := s.ramDisk(ctx, f, m, p, p.Directory == disk)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) ramDisk(ctx context.Context, f Fleet, m Matrix, p Place, memoryToo bool) error {
	running, err := f.Start(ctx, p)
	if err != nil {
		return err
	}
	defer running.Stop()
	run := &allRun{suite: s, fleet: f}
	subjects := run.subjects(running, p, workload.Synced, driver.ClientSarama)
	if memoryToo {
		subjects = append(subjects, run.subjects(running, p, workload.Unsynced, driver.ClientSarama)...)
	}
	for _, subject := range subjects {
		if err := s.RAMDisk(ctx, subject, m); err != nil {
			return err
		}
	}
	return nil
}

// Others are builds of this program with another version of a library: a
// process can hold only one.
type Others []Other

// Other is one of them.
type Other struct {
	Name    string // Sarama 1.45.2
	Program string
}
