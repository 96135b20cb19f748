package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/disk/loopdisk"
	"strandline.dev/test/history"
	"strandline.dev/test/history/judge"
)

// slack is by how much a call may miss its deadline: a small machine with a
// cluster on it is late at times.
const slack = 30 * time.Second

// Options of a campaign. The zero value of each has a default.
type Options struct {
	// Seed decides the schedule of faults.
	Seed uint64
	// Faults is how many there are; default 40: each kind at least once.
	Faults int
	// Of are the kinds that are drawn from; none: all.
	Of []string
	// Nodes form the cluster, 3 to 5; 0: the seed decides.
	Nodes int
	// Rate is how many records per second each of the two bulk writers appends at
	// most; default 500, negative: no bound.
	Rate int
	// Patient waits after every fault until the cluster is healthy, not only after
	// most of them.
	Patient bool
	// WithoutDisks leaves out loop mounts even where they work.
	WithoutDisks bool
	// Race runs the nodes under the race detector.
	Race bool
	// Flaw is a mistake of test/flaws that the nodes make, by its name.
	Flaw string
	// Dir is where histories, logs and data are; a failed campaign leaves a
	// directory of its own in it. Default: that for temporary files.
	Dir string
	// Again is the command that repeats a campaign, without seed and faults.
	Again string
	// Logf receives a line on each thing that happens; nil: none is written.
	Logf func(format string, args ...any)
}

func (o Options) withDefaults() Options {
	if o.Faults == 0 {
		o.Faults = 40
	}
	if o.Nodes == 0 {
		o.Nodes = 3 + rand.New(rand.NewPCG(o.Seed, 1<<40)).IntN(3)
	}
	if o.Rate == 0 {
		o.Rate = 500
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// Run runs one campaign. The error says why it could not run; the report has its findings. When ctx
// ends, the schedule ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	o = o.withDefaults()
	has := machine()
	if o.WithoutDisks {
		has.disks = errors.New("switched off")
	}
	kinds, left, err := choose(o.Of, has)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, fmt.Sprintf("strandline-campaign-seed-%d-", o.Seed))
	if err != nil {
		return nil, err
	}
	t := &stage{name: fmt.Sprintf("campaign of seed %d", o.Seed), dir: dir, logf: o.Logf}
	report := newReport(o, left)
	begun := time.Now()
	t.perform(func() { run(ctx, t, o, kinds, has, report) })
	report.Duration = time.Since(begun)
	report.Problems = t.failures()
	if report.Holds() {
		return report, os.RemoveAll(dir)
	}
	report.Left = dir
	return report, nil
}

// run has the campaign's goroutine.
func run(ctx context.Context, t *stage, o Options, kinds []kind, has abilities, report *Report) {
	s := &scene{t: t, kinds: kinds, disks: map[string]*loopdisk.Disk{}, places: map[string]string{}}
	s.choice = &choice{scene: s, taken: map[string]bool{}}
	options := cluster.Options{Nodes: o.Nodes, Race: o.Race, Place: s.datacenter, Kafka: true, Flaw: o.Flaw, Flags: limits(o.Seed)}
	if has.disks == nil {
		options.Data, options.Flags = s.place, append(options.Flags, "--min-free", minFree)
		t.Cleanup(s.closeDisks)
	}
	s.cluster = cluster.Start(t, options)
	for _, log := range logs {
		s.cluster.CreateLog(log, client.LogConfig{Replicas: replicas, Rule: &client.PlacementRule{Spread: "dc"}})
	}
	s.load = newLoad(t, s.addresses(), max(o.Rate, 0))
	t.Cleanup(func() { report.complete(s) })
	finished := false
	t.Cleanup(func() {
		if !finished {
			// The campaign ended early: show what the nodes were doing, and check
			// what was promised until then.
			s.dump()
			s.load.end()
			s.check(report)
		}
	})
	s.load.begin(o.Seed)
	s.awaitAcks(100)
	for _, step := range plan(o.Seed, kinds, o.Faults) {
		if ctx.Err() != nil {
			report.cut(step.number - 1)
			break
		}
		step.impatient = step.impatient && !o.Patient
		s.perform(step, report)
	}
	s.cluster.AwaitHealthy()
	s.awaitAcks(100)
	s.load.end()
	s.cluster.AwaitHealthy()
	comparison{s}.readBack()
	comparison{s}.compareDigests()
	comparison{s}.compareFiles()
	finished = true
	s.check(report)
}

// limits are flags for small files and little memory, in two of three seeds: logs roll,
// recycle and read from disk often then. The first MiB of a segment is read for Kafka's
// consumers, the others are sent from the file.
func limits(seed uint64) []string {
	if rand.New(rand.NewPCG(seed, 1<<41)).IntN(3) == 0 {
		return nil
	}
	return []string{"--segment-size", "2MiB", "--memory", "192MiB"}
}

// perform is one fault, from its beginning until the cluster is healthy again.
func (s *scene) perform(p step, report *Report) {
	s.t.Logf("fault %d: %s, for %s", p.number, p.kind.Name, p.hold.Round(time.Millisecond))
	s.dice, s.hold, s.ended, s.without = p.dice, p.hold, time.Time{}, ""
	begun := time.Now()
	s.load.pace.Begin(begun)
	end := p.kind.begin(s)
	if end == nil {
		s.t.Logf("  nobody was there for it")
		report.skip(p.kind)
		return
	}
	if rest := p.hold - time.Since(begun); rest > 0 {
		time.Sleep(rest)
	}
	end()
	f := fault{kind: p.kind.Name, without: s.without}
	if p.impatient {
		f.gap = s.load.pace.Gap(time.Now())
	} else {
		f.serving = s.awaitServing()
		s.cluster.AwaitHealthy()
		f.healthy = time.Since(s.ended)
		f.gap = s.load.pace.Gap(time.Now())
	}
	report.add(f)
	s.t.Logf("  %s", f)
	time.Sleep(p.rest)
}

// awaitServing waits for the first acknowledgement since the fault ended, and
// returns how long it took.
func (s *scene) awaitServing() time.Duration {
	for deadline := time.Now().Add(cluster.Patience); ; time.Sleep(time.Millisecond) {
		if took, came := s.load.pace.serving(); came {
			return took
		}
		require.True(s.t, time.Now().Before(deadline), "no append was acknowledged for %s after the fault was over", cluster.Patience)
	}
}

// awaitAcks waits for so many more.
func (s *scene) awaitAcks(more int64) {
	goal := s.load.acked.Load() + more
	for deadline := time.Now().Add(cluster.Patience); s.load.acked.Load() < goal; time.Sleep(time.Millisecond) {
		require.True(s.t, time.Now().Before(deadline), "waited %s for %d acknowledgements", cluster.Patience, goal-s.load.acked.Load())
	}
}

// dump ends the nodes and has them write to their logs what they were doing.
func (s *scene) dump() {
	for _, disk := range s.disks {
		_ = disk.Empty()
		_ = disk.Thaw()
	}
	for _, n := range s.cluster.Nodes() {
		n.Dump()
	}
}

// check holds the rules against the history.
func (s *scene) check(report *Report) {
	s.load.close()
	var inputs []history.Input
	for _, path := range s.load.files {
		file, err := os.Open(path)
		require.NoError(s.t, err)
		defer file.Close()
		inputs = append(inputs, history.Input{Name: filepath.Base(path), Reader: file})
	}
	checked, err := judge.Check(history.NewReader(inputs...), judge.Options{Slack: slack})
	require.NoError(s.t, err)
	report.History = checked
	for _, v := range checked.Violations {
		s.t.Errorf("the history breaks a rule: %s", v)
	}
}
