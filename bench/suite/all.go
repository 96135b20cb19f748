package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/report"
	"strandline.dev/bench/workload"
)

// All starts systems, measures everything on them, and stops them. A
// measurement that goes wrong is reported and the next one begun; the error names
// all of them. When the context ends, so does All.
func (s *Suite) All(ctx context.Context, f Fleet, p Plan, others Others) error {
	run := &allRun{suite: s, fleet: f, plan: p, others: others, begin: time.Now()}
	run.place(ctx, Place{Nodes: 1}, (*site).one)
	run.place(ctx, Place{Nodes: 1, SyncDelay: p.SlowDisk}, (*site).appends)
	if p.Three {
		run.place(ctx, Place{Nodes: 3}, (*site).three)
		run.place(ctx, Place{Nodes: 3, SyncDelay: p.SlowDisk, WithoutKafka: true}, (*site).threeSlow)
	}
	run.inMemory(ctx)
	return run.err(ctx)
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

func (r *allRun) err(ctx context.Context) error {
	return errors.Join(append(r.failed, ctx.Err())...)
}

// place starts the systems for as long as do needs them.
func (r *allRun) place(ctx context.Context, p Place, do func(*site, context.Context)) {
	what := fmt.Sprintf("nodes of each system: %d, disk %s", p.Nodes, p.disk())
	r.try(ctx, what, func() error {
		r.suite.Line("%v: starting, %s", time.Since(r.begin).Round(time.Second), what)
		running, err := r.fleet.Start(ctx, p)
		if err != nil {
			return err
		}
		defer running.Stop()
		at := &site{allRun: r, running: running, Place: p}
		at.warmUp(ctx)
		r.suite.Line("everything runs after %v", time.Since(r.begin).Round(time.Second))
		do(at, ctx)
		return nil
	})
}

// site is a place with the systems that run there, and what is measured on them.
type site struct {
	*allRun
	Place
	running *Running
}

// warmUp has every system append for a while, unmeasured: a virtual machine for
// Java compiles what it runs only then. Ours has but its files to find.
func (r *site) warmUp(ctx context.Context) {
	s := *r.suite
	s.Writer, s.Directory, s.Repeats = report.Nowhere{}, nil, 1
	load := r.plan.Appends
	load.Connections = []int{1, 32}
	const ours = 500 * time.Millisecond
	for _, subject := range r.subjects(workload.Synced, franz) {
		load.Duration, load.Warmup = min(r.plan.WarmUp, ours)/2, 0
		if subject.Name == r.running.Kafka.Name {
			load.Duration = r.plan.WarmUp / 2
		}
		subject.Log.RetentionBytes = keepBytes
		r.try(ctx, "warm-up of "+subject.Label(), func() error {
			if _, err := s.Appends(ctx, subject, load); err != nil {
				return errors.New(err.Error()) // not reported yet: its row was not written
			}
			return nil
		})
	}
}

// try keeps an error for the end, and reports it in a row unless that has been done,
// or nothing is to be done any more.
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

// clients are the libraries for Kafka's protocol that a benchmark drives, on
// our own server and on Kafka.
type clients struct{ ours, kafka []string }

// One library is enough for most benchmarks: time is short.
var (
	franz  = clients{[]string{driver.ClientFranz}, []string{driver.ClientFranz}}
	sarama = clients{[]string{driver.ClientSarama}, []string{driver.ClientSarama}}
)

// subjects are the systems that run, Strandline by its own client first, and
// then its server and Kafka by the given ones.
func (r *site) subjects(stored workload.Durability, c clients) []Subject {
	config := workload.LogConfig{Durability: stored, Replicas: r.Nodes}
	all := []Subject{{Address: r.running.Strandline, Files: r.running.StrandlineFiles, HTTP: r.running.StrandlineHTTP, Log: config}}
	add := func(a driver.Address, clients []string, version, files string) {
		for _, client := range clients {
			if len(a.Nodes) > 0 {
				a.Client = client
				all = append(all, Subject{Address: a, Version: version, Files: files, Log: config})
			}
		}
	}
	add(r.running.KafkaPort, c.ours, "", r.running.StrandlineFiles)
	add(r.running.Kafka, c.kafka, r.running.KafkaVersion, r.running.KafkaFiles)
	return all
}

// keepBytes is what logs of appends keep, so that a run does not fill a disk.
const keepBytes = 256 << 20

// appends is B1 on all systems: what is synced by two libraries, what is not by
// fewer, and not at all on a slow disk, which it would not notice.
func (r *site) appends(ctx context.Context) {
	two := []string{driver.ClientFranz, driver.ClientSarama}
	r.appendsBy(ctx, workload.Synced, clients{two, two})
	if r.Nodes == 1 && len(r.running.Kafka.Nodes) > 0 {
		restore := r.repeated(r.plan.Repeats)
		r.gatherBehindProxy(ctx)
		restore()
	}
	switch {
	case r.SyncDelay > 0:
	case r.Nodes == 1:
		r.appendsBy(ctx, workload.Unsynced, clients{ours: two[:1], kafka: two})
	case !r.plan.ThreeSyncedOnly:
		r.appendsBy(ctx, workload.Unsynced, clients{kafka: two[:1]})
	}
}

func (r *site) appendsBy(ctx context.Context, stored workload.Durability, c clients) {
	defer r.repeated(r.plan.Repeats)()
	for _, subject := range r.subjects(stored, c) {
		load := r.plan.Appends
		// The lowest and the highest number of connections say enough of a second
		// library, and of what is not synced by our server and on three nodes.
		unsynced := stored == workload.Unsynced && (subject.Name == r.running.KafkaPort.Name || r.Nodes > 1)
		if subject.Client == driver.ClientSarama || unsynced {
			load.Connections = []int{load.Connections[0], load.Connections[len(load.Connections)-1]}
		}
		r.appendsOf(ctx, subject, load)
	}
}

// repeated has everything repeated so often until the function that it returns
// is called.
func (r *allRun) repeated(n int) func() {
	before := r.suite.Repeats
	r.suite.Repeats = n
	return func() { r.suite.Repeats = before }
}

// three is what is measured of three nodes.
func (r *site) three(ctx context.Context) {
	r.appends(ctx)
	r.logs(ctx)
	r.mixed(ctx)
	r.idle(ctx)
}

// threeSlow is Strandline's own appends.
func (r *site) threeSlow(ctx context.Context) {
	r.appendsBy(ctx, workload.Synced, clients{})
}

// one is what is measured of one node: everything.
func (r *site) one(ctx context.Context) {
	r.appends(ctx)
	r.openLoop(ctx)
	r.logs(ctx)
	r.fanOut(ctx)
	r.reads(ctx)
	r.pipeline(ctx)
	r.matrix(ctx)
	r.retention(ctx)
	r.mixed(ctx)
	if r.plan.RAM != "" {
		r.ramDisk(ctx)
	}
	r.idle(ctx)
}

func (r *site) openLoop(ctx context.Context) {
	open := r.plan.Appends
	open.PerSecond, open.Connections = r.plan.OpenRate, []int{8}
	for _, subject := range r.subjects(workload.Synced, franz) {
		r.try(ctx, "appends, open loop, "+subject.name(), func() error {
			_, err := r.suite.Appends(ctx, subject, open)
			return err
		})
	}
}

// logs is appends over many logs. Kafka's port gives the same logs as our own.
func (r *site) logs(ctx context.Context) {
	for _, subject := range r.subjects(workload.Synced, clients{kafka: franz.kafka}) {
		subject.Log.RetentionBytes = keepBytes
		r.try(ctx, "logs, "+subject.name(), func() error { return r.suite.Logs(ctx, subject, r.plan.Logs) })
	}
}

// idle is measured last: what was there before keeps the files and the memory that it had.
func (r *site) idle(ctx context.Context) {
	subject := r.subjects(workload.Synced, clients{})[0]
	r.try(ctx, "idle, "+subject.name(), func() error { return r.suite.Idle(ctx, subject, r.plan.Idle) })
}

func (r *site) fanOut(ctx context.Context) {
	for _, subject := range r.subjects(workload.Synced, clients{kafka: franz.kafka}) {
		r.try(ctx, "fan-out, "+subject.name(), func() error { return r.suite.FanOut(ctx, subject, r.plan.FanOut) })
	}
}

// reads is B2. A log is filled once for each system. It is read from the disk by one
// client of each, and from the cache by all clients in turn: what long reads gain or lose
// beside Kafka is less than a machine drifts in minutes.
func (r *site) reads(ctx context.Context) {
	others := slices.DeleteFunc(driver.Clients(), func(c string) bool { return c == driver.ClientFranz })
	all := append([]string{driver.ClientFranz}, others...) // bare fetch requests cannot fill a log
	// What lies in memory alone is no read from a disk, so ours is synced.
	subjects := r.subjects(workload.Synced, clients{ours: all})
	subjects = append(subjects, r.subjects(workload.Unsynced, clients{kafka: all})[1:]...)
	load := r.plan.Reads
	load.Keep, load.Cat, load.Caches = true, true, []report.Cache{report.Uncached} // the logs go with the systems
	restore := r.repeated(r.plan.ReadRepeats)
	for _, subject := range subjects {
		if subject.Scheme == driver.Kafka && subject.Client != driver.ClientFranz {
			continue
		}
		r.try(ctx, "read, "+subject.name(), func() error {
			_, err := r.suite.Reads(ctx, subject, load)
			return err
		})
	}
	restore()
	defer r.repeated(r.plan.ReadTurns)()
	r.try(ctx, "read in turn", func() error { return r.suite.ReadsInTurn(ctx, subjects, load) })
}

func (r *site) pipeline(ctx context.Context) {
	subjects := r.subjects(workload.Synced, clients{franz.ours, []string{driver.ClientFranz, driver.ClientSarama}})
	for _, subject := range subjects {
		for _, part := range r.plan.Pipelines {
			part = part.of(subject)
			r.try(ctx, "pipeline, "+subject.name(), func() error { return r.suite.Pipeline(ctx, subject, part) })
		}
	}
	if len(r.running.Kafka.Nodes) == 0 {
		return
	}
	kafka := subjects[len(subjects)-1]
	for _, other := range r.others {
		for _, part := range r.plan.Pipelines {
			part = part.of(kafka)
			r.try(ctx, "pipeline, "+other.Name, func() error { return other.pipeline(ctx, r.suite, kafka, part) })
		}
	}
}

// of leaves automatic out for Kafka's libraries, which have no such thing: left
// alone they keep 5 in flight at the most, which is measured.
func (p Pipeline) of(s Subject) Pipeline {
	if s.Scheme == driver.Kafka {
		p.InFlight = slices.DeleteFunc(slices.Clone(p.InFlight), func(n int) bool { return n == 0 })
	}
	return p
}

func (r *site) matrix(ctx context.Context) {
	defer r.repeated(r.plan.MatrixRepeats)()
	for _, subject := range r.subjects(workload.Synced, sarama) {
		r.try(ctx, "matrix, "+subject.name(), func() error { return r.suite.Matrix(ctx, subject, r.plan.Matrix) })
	}
}

func (r *site) retention(ctx context.Context) {
	load := r.plan.Retention
	load.Check = false // a short retention trims what was sent
	for _, subject := range r.subjects(workload.Synced, sarama) {
		r.try(ctx, "retention, "+subject.name(), func() error { return r.suite.Retention(ctx, subject, load, r.plan.Retentions) })
	}
}

func (r *site) mixed(ctx context.Context) {
	for _, subject := range r.subjects(workload.Synced, franz) {
		r.try(ctx, "mixed, "+subject.name(), func() error { return r.suite.Mixed(ctx, subject, r.plan.Mixed) })
	}
}

// RAMDisks is B6: systems on a disk, the same in a directory in memory, and
// logs that are in memory alone.
func (s *Suite) RAMDisks(ctx context.Context, f Fleet, m Matrix, disk, ram string) error {
	plan := DefaultPlan()
	plan.RAMDisk, plan.RAM = m, ram
	run := &allRun{suite: s, fleet: f, plan: plan, begin: time.Now()}
	run.place(ctx, Place{Nodes: 1, Directory: disk}, (*site).ramDisk)
	run.inMemory(ctx)
	return run.err(ctx)
}

// inMemory is the part of B6 whose files are in memory, if there is a place.
func (r *allRun) inMemory(ctx context.Context) {
	if r.plan.RAM != "" {
		r.place(ctx, Place{Nodes: 1, Directory: r.plan.RAM, Disk: "in memory (tmpfs)"}, (*site).ramDisk)
	}
}

// ramDisk is B6 in one place. What is not synced is measured once, on the disk.
func (r *site) ramDisk(ctx context.Context) {
	subjects := r.subjects(workload.Synced, sarama)
	if r.Directory != r.plan.RAM {
		subjects = append(subjects, r.subjects(workload.Unsynced, clients{kafka: sarama.kafka})...)
	}
	for _, subject := range subjects {
		r.try(ctx, "ramdisk, "+subject.name(), func() error { return r.suite.RAMDisk(ctx, subject, r.plan.RAMDisk) })
	}
}

// Others are builds of this program with another version of a library: a
// process can hold only one.
type Others []Other

// Other is one of them.
type Other struct {
	Name    string // Sarama 1.45.2
	Program string
}
